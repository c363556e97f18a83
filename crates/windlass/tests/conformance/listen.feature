Feature: Listen and Emit
  Events in and out (points 21 and 22).

  @crash
  Scenario: Listen to one yields an array with the data
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-one, version: '1.0.0' }
    do:
      - l: { listen: { to: { one: { with: { type: go } } } } }
    """
    When the workflow is started
    And the workflow is waiting
    And the signal 'go' is sent with data:
    """yaml
    n: 1
    """
    Then the workflow should complete with output:
    """yaml
    [ { n: 1 } ]
    """

  @crash
  Scenario: A signal that comes early is kept
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-early, version: '1.0.0' }
    do:
      - w: { wait: { milliseconds: 300 } }
      - l: { listen: { to: { one: { with: { type: go } } } } }
    """
    When the workflow is started
    And the signal 'go' is sent with data:
    """yaml
    n: 1
    """
    Then the workflow should complete with output:
    """yaml
    [ { n: 1 } ]
    """

  Scenario: The data of an event may be a predicate
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-predicate, version: '1.0.0' }
    do:
      - l: { listen: { to: { one: { with: { type: go, data: '${ .n > 1 }' } } } } }
    """
    When the workflow is started
    And the signal 'go' is sent with data:
    """yaml
    n: 1
    """
    And the signal 'go' is sent with data:
    """yaml
    n: 2
    """
    Then the workflow should complete with output:
    """yaml
    [ { n: 2 } ]
    """

  Scenario: An attribute may be a regular expression
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-regex, version: '1.0.0' }
    do:
      - l: { listen: { to: { one: { with: { type: 'order\..*' } } } } }
    """
    When the workflow is started
    And the signal 'other' is sent with data:
    """yaml
    n: 1
    """
    And the signal 'order.paid' is sent with data:
    """yaml
    n: 2
    """
    Then the workflow should complete with output:
    """yaml
    [ { n: 2 } ]
    """

  Scenario: Correlation expects what the instance says
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-correlate, version: '1.0.0' }
    do:
      - l: { listen: { to: { one: { with: { type: go }, correlate: { order: { from: .data.order, expect: '${ .order }' } } } } } }
    """
    And given the workflow input is:
    """yaml
    order: 2
    """
    When the workflow is started
    And the signal 'go' is sent with data:
    """yaml
    order: 1
    """
    And the signal 'go' is sent with data:
    """yaml
    order: 2
    """
    Then the workflow should complete with output:
    """yaml
    [ { order: 2 } ]
    """

  Scenario: The envelope can be read
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-envelope, version: '1.0.0' }
    do:
      - l: { listen: { to: { one: { with: { type: go } } }, read: envelope }, output: { as: '{ type: .[0].type, n: .[0].data.n }' } }
    """
    When the workflow is started
    And the signal 'go' is sent with data:
    """yaml
    n: 1
    """
    Then the workflow should complete with output:
    """yaml
    type: go
    n: 1
    """

  @crash
  Scenario: Listen to all waits for each
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-all, version: '1.0.0' }
    do:
      - l: { listen: { to: { all: [ { with: { type: a } }, { with: { type: b } } ] } }, output: { as: '[.[].n] | sort' } }
    """
    When the workflow is started
    And the signal 'b' is sent with data:
    """yaml
    n: 2
    """
    And the signal 'a' is sent with data:
    """yaml
    n: 1
    """
    Then the workflow should complete with output:
    """yaml
    [ 1, 2 ]
    """

  Scenario: Listen to any takes whichever comes first
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-any, version: '1.0.0' }
    do:
      - l: { listen: { to: { any: [ { with: { type: a } }, { with: { type: b } } ] } } }
    """
    When the workflow is started
    And the signal 'b' is sent with data:
    """yaml
    n: 2
    """
    Then the workflow should complete with output:
    """yaml
    [ { n: 2 } ]
    """

  Scenario: Until ends the listening and is not part of it
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-until, version: '1.0.0' }
    do:
      - l: { listen: { to: { any: [ { with: { type: item } } ], until: { one: { with: { type: stop } } } } }, output: { as: '[.[].n]' } }
    """
    When the workflow is started
    And the signal 'item' is sent with data:
    """yaml
    n: 1
    """
    And the signal 'item' is sent with data:
    """yaml
    n: 2
    """
    And the signal 'stop' is sent with data:
    """yaml
    n: 3
    """
    Then the workflow should complete with output:
    """yaml
    [ 1, 2 ]
    """

  Scenario: Foreach goes through the events as they come
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-foreach, version: '1.0.0' }
    do:
      - l:
          listen: { to: { any: [ { with: { type: item } } ], until: '. | length == 2' } }
          foreach: { item: e, at: i, do: [ { double: { set: { n: '${ $e.n * 2 }', at: '${ $i }' } } } ] }
    """
    When the workflow is started
    And the signal 'item' is sent with data:
    """yaml
    n: 1
    """
    And the signal 'item' is sent with data:
    """yaml
    n: 2
    """
    Then the workflow should complete
    And double should run 2 times

  Scenario: Emit yields the event with id and time
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: emit, version: '1.0.0' }
    do:
      - e: { emit: { event: { with: { source: 'https://example.com', type: done, data: { n: '${ .n }' } } } } }
    """
    And given the workflow input is:
    """yaml
    n: 1
    """
    When the workflow is executed
    Then the workflow should complete
    And the workflow output should have properties 'id', 'time', 'specversion', 'source', 'type'
    And the workflow output should have a 'data' property with value:
    """yaml
    n: 1
    """

  Scenario: A signal or a deadline, whichever comes first
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: listen-or-wait, version: '1.0.0' }
    do:
      - race:
          fork:
            compete: true
            branches:
              - heard: { listen: { to: { one: { with: { type: never } } } } }
              - late: { wait: { milliseconds: 50 }, output: { as: '"late"' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    late
    """
