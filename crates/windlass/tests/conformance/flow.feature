Feature: Flow Directives
  Switch, then, exit and end (points 11 and 13).

  Scenario: The first case that holds wins
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: switch-first, version: '1.0.0' }
    do:
      - s: { switch: [ { big: { when: .n > 10, then: big } }, { bigger: { when: .n > 5, then: bigger } }, { other: { then: end } } ] }
      - big: { set: { is: big }, then: end }
      - bigger: { set: { is: bigger }, then: end }
    """
    And given the workflow input is:
    """yaml
    n: 11
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    is: big
    """

  Scenario: The default case may stand anywhere
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: switch-default, version: '1.0.0' }
    do:
      - s: { switch: [ { other: { then: other } }, { one: { when: .n == 1, then: one } } ] }
      - one: { set: { is: one }, then: end }
      - other: { set: { is: other }, then: end }
    """
    And given the workflow input is:
    """yaml
    n: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    is: one
    """

  Scenario: Without a match the task goes where its own then says
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: switch-none, version: '1.0.0' }
    do:
      - s: { switch: [ { one: { when: .n == 1, then: skipped } } ], then: last }
      - skipped: { set: { is: skipped } }
      - last: { set: { n: '${ .n }', is: last } }
    """
    And given the workflow input is:
    """yaml
    n: 5
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 5
    is: last
    """

  @crash
  Scenario: A task may jump back
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: jump-back, version: '1.0.0' }
    do:
      - begin: { set: { n: 0 } }
      - inc: { set: { n: '${ .n + 1 }' } }
      - again: { switch: [ { more: { when: .n < 3, then: inc } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 3
    """
    And inc should run 3 times

  Scenario: Exit leaves the enclosing list only
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: exit-list, version: '1.0.0' }
    do:
      - outer: { do: [ { a: { set: { a: 1 }, then: exit } }, { never: { set: { n: 1 } } } ] }
      - after: { set: { a: '${ .a }', after: true } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    a: 1
    after: true
    """
    And never should not run

  Scenario: End inside a nested list ends the workflow
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: end-nested, version: '1.0.0' }
    do:
      - outer: { do: [ { inner: { do: [ { a: { set: { a: 1 }, then: end } } ] } }, { never: { set: { n: 1 } } } ] }
      - neither: { set: { n: 2 } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    a: 1
    """

  Scenario: A jump to a task of another list is refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: jump-elsewhere, version: '1.0.0' }
    do:
      - outer: { do: [ { a: { set: { a: 1 }, then: last } } ] }
      - last: { set: { n: 2 } }
    """
    When the workflow is executed
    Then the definition should be refused with 'unknown-target' at '/do/0/outer/do/0/a/then'

  Scenario: Two tasks of one name in a list are refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: same-names, version: '1.0.0' }
    do:
      - a: { set: { n: 1 } }
      - a: { set: { n: 2 } }
    """
    When the workflow is executed
    Then the definition should be refused with 'duplicate-task'

  Scenario: Two default cases are refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: two-defaults, version: '1.0.0' }
    do:
      - s: { switch: [ { a: { then: end } }, { b: { then: end } } ] }
    """
    When the workflow is executed
    Then the definition should be refused with 'two-defaults'

  Scenario: A newer version of the language is refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.4', namespace: conformance, name: new-dsl, version: '1.0.0' }
    do:
      - a: { set: { n: 1 } }
    """
    When the workflow is executed
    Then the definition should be refused with 'unknown-dsl'
