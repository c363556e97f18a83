Feature: Fork Task
  Branches side by side (point 10).

  @crash
  Scenario: Outputs come in the order of declaration
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: fork-order, version: '1.0.0' }
    do:
      - all:
          fork:
            branches:
              - slow: { wait: { milliseconds: 300 }, output: { as: '"slow"' } }
              - quick: { set: { v: quick } }
              - list: { do: [ { x: { set: { n: 1 } } }, { y: { set: { n: '${ .n + 1 }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    [ slow, { v: quick }, { n: 2 } ]
    """

  @crash
  Scenario: Competing branches: the first wins and the others are cancelled
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: fork-compete, version: '1.0.0' }
    do:
      - race:
          fork:
            compete: true
            branches:
              - never: { wait: { hours: 1 } }
              - quick: { wait: { milliseconds: 50 }, output: { as: '{ won: true }' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    won: true
    """

  Scenario: A faulting branch faults the fork
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: fork-fault, version: '1.0.0' }
    do:
      - t:
          try:
            - all:
                fork:
                  branches:
                    - long: { wait: { hours: 1 } }
                    - bad: { raise: { error: { type: 'https://example.com/bad', status: 418 } } }
          catch: { do: [ { told: { set: { status: '${ $error.status }', where: '${ $error.instance }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 418
    where: /do/0/t/try/0/all/fork/branches/1/bad
    """

  Scenario: Competing: a fault loses as long as another may win
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: fork-compete-fault, version: '1.0.0' }
    do:
      - race:
          fork:
            compete: true
            branches:
              - bad: { raise: { error: { type: 'https://example.com/bad', status: 418 } } }
              - good: { wait: { milliseconds: 50 }, output: { as: '"good"' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    good
    """

  Scenario: Competing: if all fault the fork faults
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: fork-compete-all-fault, version: '1.0.0' }
    do:
      - race:
          fork:
            compete: true
            branches:
              - a: { raise: { error: { type: 'https://example.com/a', status: 418 } } }
              - b: { wait: { milliseconds: 20 }, then: continue, output: { as: '. + 1' } }
    """
    And given the workflow input is:
    """yaml
    a: 1
    """
    When the workflow is executed
    Then the workflow should fault

  Scenario: Each branch has its copy of the context; later branches win
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: fork-context, version: '1.0.0' }
    do:
      - begin: { set: { x: 1 }, export: { as: '{ both: 0, base: 1 }' } }
      - all:
          fork:
            branches:
              - a: { set: { n: 1 }, export: { as: '$context + { a: true, both: 1 }' } }
              - b: { set: { n: 2 }, export: { as: '$context + { b: true, both: 2 }' } }
      - last: { set: '${ $context }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    both: 2
    base: 1
    a: true
    b: true
    """

  Scenario: End in a branch ends the workflow
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: fork-end, version: '1.0.0' }
    do:
      - all:
          fork:
            branches:
              - long: { wait: { hours: 1 } }
              - stop: { set: { ended: here }, then: end }
      - never: { set: { x: 1 } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    ended: here
    """
    And never should not run
