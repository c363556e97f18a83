Feature: For Task
  Loops are sequential; each iteration sees the output of the one before (points 9 and 13).

  @crash
  Scenario: Each iteration gets the output of the one before
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-sum, version: '1.0.0' }
    do:
      - begin: { set: { sum: 0 } }
      - each: { for: { each: n, in: '[1, 2, 3]', at: i }, do: [ { add: { set: { sum: '${ .sum + $n * $i }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    sum: 8
    """
    And add should run 3 times

  Scenario: An empty collection gives the input
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-empty, version: '1.0.0' }
    do:
      - each: { for: { in: .items }, do: [ { a: { set: { x: 1 } } } ] }
    """
    And given the workflow input is:
    """yaml
    items: []
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    items: []
    """
    And a should not run

  Scenario: While is tested before each iteration
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-while, version: '1.0.0' }
    do:
      - begin: { set: { n: 0 } }
      - each: { for: { each: x, in: '[1, 2, 3, 4]' }, while: .n < 2, do: [ { inc: { set: { n: '${ .n + 1 }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 2
    """
    And inc should run 2 times

  Scenario: While that is false at once runs nothing
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-while-false, version: '1.0.0' }
    do:
      - each: { for: { each: x, in: '[1, 2]' }, while: 'false', do: [ { a: { set: { x: 1 } } } ] }
    """
    And given the workflow input is:
    """yaml
    keep: me
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    keep: me
    """

  Scenario: Exit leaves the iteration, not the loop
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-exit, version: '1.0.0' }
    do:
      - begin: { set: { seen: [] } }
      - each:
          for: { each: n, in: '[1, 2, 3]' }
          do:
            - skip: { switch: [ { two: { when: $n == 2, then: exit } } ] }
            - add: { set: { seen: '${ .seen + [$n] }' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    seen: [ 1, 3 ]
    """

  Scenario: End inside a loop ends the workflow
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-end, version: '1.0.0' }
    do:
      - each:
          for: { each: n, in: '[1, 2, 3]' }
          do:
            - one: { set: { n: '${ $n }' } }
            - stop: { switch: [ { two: { when: .n == 2, then: end } } ] }
      - never: { set: { n: 99 } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 2
    """
    And never should not run

  Scenario: Loops nest and inner names hide outer ones
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-nested, version: '1.0.0' }
    do:
      - begin: { set: { seen: [] } }
      - outer:
          for: { each: n, in: '[1, 2]' }
          do:
            - inner: { for: { each: n, in: '[$n * 10, $n * 10 + 1]' }, do: [ { add: { set: { seen: '${ .seen + [$n] }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    seen: [ 10, 11, 20, 21 ]
    """

  Scenario: What is not a list cannot be gone through
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: for-text, version: '1.0.0' }
    do:
      - each: { for: { in: .text }, do: [ { a: { set: { x: 1 } } } ] }
    """
    And given the workflow input is:
    """yaml
    text: abc
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    status: 400
    instance: /do/0/each
    """
