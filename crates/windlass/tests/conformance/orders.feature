Feature: Orders
  What operators can do: cancel, pause, resume.

  @crash
  Scenario: A cancelled instance ends at once
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: cancel, version: '1.0.0' }
    do:
      - w: { wait: { hours: 1 } }
    """
    When the workflow is started
    And the workflow is cancelled
    Then the workflow should be cancelled

  Scenario: Catch never sees a cancel
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: cancel-catch, version: '1.0.0' }
    do:
      - t: { try: [ { w: { wait: { hours: 1 } } } ], catch: { do: [ { never: { set: { x: 1 } } } ] } }
    """
    When the workflow is started
    And the workflow is cancelled
    Then the workflow should be cancelled
    And never should not run

  @crash
  Scenario: A paused instance goes on when resumed
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: pause, version: '1.0.0' }
    do:
      - l: { listen: { to: { one: { with: { type: go } } } } }
    """
    When the workflow is started
    And the workflow is waiting
    And the workflow is paused
    Then the workflow should be paused
    When the signal 'go' is sent with data:
    """yaml
    n: 1
    """
    Then the workflow should be paused
    When the workflow is resumed
    Then the workflow should complete with output:
    """yaml
    [ { n: 1 } ]
    """
