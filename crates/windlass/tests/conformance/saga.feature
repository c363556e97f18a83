Feature: Sagas
  Ordered do and undo (section 3).

  @crash
  Scenario: A saga names each output
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: saga-forward, version: '1.0.0' }
    use:
      functions:
        keep: { set: { kept: '${ .n }' } }
        fail: { raise: { error: { type: 'https://example.com/fail', status: 409 } } }
        back: { set: { undone: '${ .output.kept }' } }
        hold: { wait: { hours: 1 } }

    do:
      - s:
          call: saga:1.0.0@default
          with:
            steps:
              - { name: one, do: keep, undo: back, with: { n: '${ .n }' } }
              - { name: two, do: keep, undo: back, with: { n: '${ $steps.one.kept + 1 }' } }
    """
    And given the workflow input is:
    """yaml
    n: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    one: { kept: 1 }
    two: { kept: 2 }
    """

  @crash
  Scenario: A fault undoes and can be caught outside
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: saga-fault, version: '1.0.0' }
    use:
      functions:
        keep: { set: { kept: '${ .n }' } }
        fail: { raise: { error: { type: 'https://example.com/fail', status: 409 } } }
        back: { set: { undone: '${ .output.kept }' } }
        hold: { wait: { hours: 1 } }

    do:
      - t:
          try:
            - s: { call: 'saga:1.0.0@default', with: { steps: [ { name: one, do: keep, undo: back, with: { n: 1 } }, { name: two, do: 'echo:1.0.0@default', undo: 'noop:1.0.0@default' }, { name: three, do: fail } ] } }
          catch: { do: [ { c: { set: { status: '${ $error.status }', where: '${ $error.instance }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 409
    where: /do/0/t/try/0/s/with/steps/2/do
    """
    And 0/undo should run after 1/undo

  @crash
  Scenario: A cancel undoes first
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: saga-cancel, version: '1.0.0' }
    use:
      functions:
        keep: { set: { kept: '${ .n }' } }
        fail: { raise: { error: { type: 'https://example.com/fail', status: 409 } } }
        back: { set: { undone: '${ .output.kept }' } }
        hold: { wait: { hours: 1 } }

    do:
      - s: { call: 'saga:1.0.0@default', with: { steps: [ { name: one, do: keep, undo: 'echo:1.0.0@default', with: { n: 1 } }, { name: two, do: hold, undo: fail } ] } }
    """
    When the workflow is started
    And the workflow is waiting
    And the workflow is cancelled
    Then the workflow should be cancelled
    And 0/undo should run once
    And 1/undo should not run

  Scenario: Past the pivot a cancel waits for the end
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: saga-pivot, version: '1.0.0' }
    use:
      functions:
        keep: { set: { kept: '${ .n }' } }
        fail: { raise: { error: { type: 'https://example.com/fail', status: 409 } } }
        back: { set: { undone: '${ .output.kept }' } }
        hold: { wait: { hours: 1 } }
        rest: { wait: { milliseconds: 400 } }

    do:
      - s: { call: 'saga:1.0.0@default', with: { steps: [ { name: one, do: keep, undo: back, with: { n: 1 } }, { name: two, pivot: true, do: keep, with: { n: 2 } }, { name: three, do: rest }, { name: four, do: keep, with: { n: 4 } } ] } }
    """
    When the workflow is started
    And the workflow is waiting
    And the workflow is cancelled
    Then the workflow should be cancelled
    And 0/undo should not run
    And 3/do should run

  Scenario: A fork branch that loses is undone before the fork completes
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: saga-loses, version: '1.0.0' }
    use:
      functions:
        keep: { set: { kept: '${ .n }' } }
        fail: { raise: { error: { type: 'https://example.com/fail', status: 409 } } }
        back: { set: { undone: '${ .output.kept }' } }
        hold: { wait: { hours: 1 } }

    do:
      - race:
          fork:
            compete: true
            branches:
              - s: { call: 'saga:1.0.0@default', with: { steps: [ { name: one, do: keep, undo: 'echo:1.0.0@default', with: { n: 1 } }, { name: two, do: hold } ] } }
              - w: { wait: { milliseconds: 100 }, output: { as: '"won"' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    won
    """
    And 0/undo should run once

  Scenario: A function that ends the workflow is refused in a saga
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: saga-end, version: '1.0.0' }
    use: { functions: { quit: { set: { x: 1 }, then: end } } }
    do:
      - s: { call: 'saga:1.0.0@default', with: { steps: [ { name: one, do: quit } ] } }
    """
    When the workflow is executed
    Then the definition should be refused with 'end-in-saga'
