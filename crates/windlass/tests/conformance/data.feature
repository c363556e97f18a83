Feature: Data Flow
  Input, output, export and the context (points 5 to 8, 12, 17).

  Scenario: The output of a task is the input of the next
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: threading, version: '1.0.0' }
    do:
      - a: { set: { a: 1, keep: gone } }
      - b: { set: { b: '${ .a }' } }
    """
    And given the workflow input is:
    """yaml
    x: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    b: 1
    """

  Scenario: Input and output are transformed
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: transforms, version: '1.0.0' }
    input: { from: .order }
    do:
      - a:
          input: { from: '{ total: ([.lines[].price] | add) }' }
          set: { total: '${ .total }', raw: '${ $task.input.id }' }
          output: { as: '{ sum: .total, id: .raw }' }
    output: { as: '{ result: . }' }
    """
    And given the workflow input is:
    """yaml
    order: { id: o-1, lines: [ { price: 2 }, { price: 3 } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    result: { sum: 5, id: o-1 }
    """

  Scenario: Export sees the transformed output and replaces the context
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: export, version: '1.0.0' }
    do:
      - a: { set: { n: 1 }, output: { as: '{ m: .n }' }, export: { as: '{ first: .m }' } }
      - b: { set: { n: 2 }, export: { as: '{ second: .n, before: $context }' } }
      - c: { set: { context: '${ $context }' } }
    """
    And given the workflow input is:
    """yaml
    {}
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    context: { second: 2, before: { first: 1 } }
    """
    And the workflow context should be:
    """yaml
    second: 2
    before: { first: 1 }
    """

  Scenario: The context is empty at first
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: context-at-first, version: '1.0.0' }
    do:
      - a: { set: { context: '${ $context }' } }
    """
    And given the workflow input is:
    """yaml
    x: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    context: null
    """

  Scenario: A skipped task passes its input on, exports nothing and does not jump
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: skipped, version: '1.0.0' }
    do:
      - a: { set: { n: 1 } }
      - b: { if: .n == 2, set: { n: 9 }, export: { as: . }, then: end }
      - c: { set: { n: '${ .n + 1 }', context: '${ $context }' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 2
    context: null
    """
    And b should not run

  Scenario: A condition that guards a raise lets the rest happen
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: guarded-raise, version: '1.0.0' }
    do:
      - check: { if: .amount < 0, raise: { error: { type: 'https://example.com/negative', status: 400 } }, then: end }
      - work: { set: { done: true } }
    """
    And given the workflow input is:
    """yaml
    amount: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    done: true
    """

  Scenario: Context written in a failing try is kept
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: context-kept, version: '1.0.0' }
    do:
      - t:
          try:
            - a: { set: { n: 1 }, export: { as: '{ reached: .n }' } }
            - b: { raise: { error: { type: 'https://example.com/x', status: 500 } } }
          catch: { do: [ { c: { set: { reached: '${ $context.reached }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    reached: 1
    """

  Scenario: The workflow output sees the context
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: output-context, version: '1.0.0' }
    do:
      - a: { set: { n: 1 }, export: { as: '{ kept: 7 }' } }
    output: { as: '{ n: .n, kept: $context.kept }' }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 1
    kept: 7
    """

  Scenario: A literal is kept as it is
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: literals, version: '1.0.0' }
    do:
      - a: { set: { text: '1', number: 1, flag: true, nothing: null, list: [ 1, [ 2 ] ], object: { a: { b: c } } } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    text: '1'
    number: 1
    flag: true
    nothing: null
    list: [ 1, [ 2 ] ]
    object: { a: { b: c } }
    """

  Scenario: Set takes an expression that yields the whole data
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: set-expression, version: '1.0.0' }
    do:
      - a: { set: '${ { sum: (.a + .b) } }' }
    """
    And given the workflow input is:
    """yaml
    a: 1
    b: 2
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    sum: 3
    """
