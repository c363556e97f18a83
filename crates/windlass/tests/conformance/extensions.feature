Feature: Extensions
  Tasks before and after others (point 28).

  Scenario: Extensions run around every task and change no data
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: extension-around, version: '1.0.0' }
    use:
      extensions:
        - log: { extend: set, before: [ { first: { set: { x: 1 } } } ], after: [ { last: { set: { x: 2 } } } ] }
    do:
      - a: { set: { n: '${ .n + 1 }' } }
      - b: { set: { n: '${ .n + 1 }' } }
    """
    And given the workflow input is:
    """yaml
    n: 0
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 2
    """
    And first should run 2 times
    And last should run 2 times

  Scenario: Exit before a task replaces it
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: extension-mock, version: '1.0.0' }
    use:
      extensions:
        - mock: { extend: call, when: '.mock', before: [ { mocked: { set: { mocked: true }, then: exit } } ] }
    do:
      - c: { call: 'broken:1.0.0@default' }
    """
    And given the workflow input is:
    """yaml
    mock: true
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    mocked: true
    """
