Feature: Timeouts and Waits
  Waiting, and limits that interrupt (point 23).

  @crash
  Scenario: Wait lasts as long as it says and passes the data on
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: wait, version: '1.0.0' }
    do:
      - w: { wait: { milliseconds: 300 } }
    """
    And given the workflow input is:
    """yaml
    x: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    x: 1
    """
    And the workflow should last at least 'PT0.3S'

  Scenario: Durations may be ISO 8601 and computed
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: wait-iso, version: '1.0.0' }
    do:
      - a: { wait: PT0.1S }
      - b: { wait: '${ .pause }' }
    """
    And given the workflow input is:
    """yaml
    pause: PT0.1S
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    pause: PT0.1S
    """
    And the workflow should last at least 'PT0.2S'

  @crash
  Scenario: A task that takes too long raises a timeout
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: task-timeout, version: '1.0.0' }
    do:
      - t:
          try: [ { w: { wait: { hours: 1 }, timeout: { after: { milliseconds: 100 } } } } ]
          catch: { errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/timeout', status: 408 } }, do: [ { c: { set: { where: '${ $error.instance }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    where: /do/0/t/try/0/w
    """

  Scenario: A timeout covers the retries of a task
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: timeout-retries, version: '1.0.0' }
    do:
      - t:
          timeout: { after: { milliseconds: 300 } }
          try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 503, title: T, detail: D } } } } ]
          catch: { retry: { delay: { hours: 1 } } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    status: 408
    instance: /do/0/t
    """

  Scenario: A timeout may be declared and named
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: timeout-named, version: '1.0.0' }
    use: { timeouts: { short: { after: { milliseconds: 50 } } } }
    do:
      - w: { wait: { hours: 1 }, timeout: short }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    status: 408
    instance: /do/0/w
    """

  Scenario: The workflow has a limit too
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: workflow-timeout, version: '1.0.0' }
    timeout: { after: { milliseconds: 150 } }
    do:
      - w: { try: [ { x: { wait: { hours: 1 } } } ], catch: { do: [ { never: { set: { x: 1 } } } ] } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    status: 408
    """
    And never should not run

  Scenario: What is done in time is not interrupted
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: timeout-in-time, version: '1.0.0' }
    do:
      - w: { wait: { milliseconds: 20 }, timeout: { after: { hours: 1 } } }
      - x: { set: { done: true } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    done: true
    """
