Feature: Functions and Calls
  Custom functions and workers (point 27).

  Scenario: A function sees its arguments and nothing else
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: function-isolated, version: '1.0.0' }
    use: { functions: { add: { set: { sum: '${ .a + .b }', other: '${ .other }' } } } }
    do:
      - begin: { set: { other: 1 } }
      - call: { call: add, with: { a: 1, b: 2 } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    sum: 3
    other: null
    """

  @crash
  Scenario: A worker gets what with says
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: worker, version: '1.0.0' }
    do:
      - w: { call: 'echo:1.0.0@default', with: { n: '${ .n + 1 }' }, output: { as: .n } }
    """
    And given the workflow input is:
    """yaml
    n: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    2
    """

  @crash
  Scenario: A worker that fails at first is tried again
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: worker-flaky, version: '1.0.0' }
    do:
      - w: { call: 'flaky:1.0.0@default', with: { n: 1 } }
    """
    When the workflow is executed
    Then the workflow should complete
    And w should run once

  Scenario: An unknown function is refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: unknown-function, version: '1.0.0' }
    do:
      - w: { call: nobody }
    """
    When the workflow is executed
    Then the definition should be refused with 'unknown-reference' and 'nobody'

  Scenario: A function that calls itself is refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: function-cycle, version: '1.0.0' }
    use: { functions: { a: { call: b }, b: { call: a } } }
    do:
      - w: { call: a }
    """
    When the workflow is executed
    Then the definition should be refused with 'function-cycle'

  @crash
  Scenario: A person completes a task
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: human-task, version: '1.0.0' }
    do:
      - ask: { call: 'human-task:1.0.0@default', with: { title: Approve conformance, data: { n: 1 } } }
    """
    When the workflow is started
    And the task 'Approve conformance' is completed with:
    """yaml
    approved: true
    """
    Then the workflow should complete with output:
    """yaml
    approved: true
    """

  Scenario: A task that nobody completes in time escalates
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: human-task-timeout, version: '1.0.0' }
    do:
      - approve:
          try: [ { ask: { call: 'human-task:1.0.0@default', with: { title: Too late }, timeout: { after: { milliseconds: 100 } } } } ]
          catch: { errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/timeout' } }, do: [ { escalate: { set: { escalated: true } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    escalated: true
    """

  Scenario: A function of another catalog is fetched at deploy
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: function-catalog, version: '1.0.0' }
    use: { catalogs: { acme: { endpoint: 'https://api.conformance.test/catalog' } } }
    do:
      - greet: { call: 'greet:1.0.0@acme', with: { name: Ann } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    greeting: hello Ann
    """

  Scenario: A function by its address is fetched at deploy, and the schema it refers to
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: function-url, version: '1.0.0' }
    do:
      - greet: { call: 'https://api.conformance.test/catalog/functions/greet/1.0.0/function.yaml', with: { nam: Ann } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://serverlessworkflow.io/spec/1.0.0/errors/validation
    status: 400
    """

  Scenario: A function that cannot be fetched is refused with the reason
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: function-missing, version: '1.0.0' }
    use: { catalogs: { acme: { endpoint: 'https://api.conformance.test/catalog' } } }
    do:
      - greet: { call: 'missing:1.0.0@acme' }
    """
    When the workflow is executed
    Then the definition should be refused with 'not-fetched', '404'
