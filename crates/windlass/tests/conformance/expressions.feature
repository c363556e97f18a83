Feature: Expressions
  Where expressions stand and what they yield (points 1 to 4 and 31).

  Scenario: A field typed expression takes bare jq and wrapped jq
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: bare-and-wrapped, version: '1.0.0' }
    do:
      - a: { if: .go, set: { n: 1 } }
      - b: { if: '${ .n == 1 }', set: { n: '${ .n + 1 }' } }
    """
    And given the workflow input is:
    """yaml
    go: true
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 2
    """

  Scenario: Inside set only a whole wrapped text is an expression
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: literal-in-set, version: '1.0.0' }
    do:
      - a: { set: { bare: .customer, wrapped: '${ .customer }', padded: '  ${ .customer }  ' } }
    """
    And given the workflow input is:
    """yaml
    customer: c-1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    bare: .customer
    wrapped: c-1
    padded: c-1
    """

  Scenario: An embedded expression is a literal
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: embedded, version: '1.0.0' }
    do:
      - a: { set: { text: 'Hello ${ .name }!', built: '${ "Hello \(.name)!" }' } }
    """
    And given the workflow input is:
    """yaml
    name: Ann
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    text: 'Hello ${ .name }!'
    built: Hello Ann!
    """

  Scenario: No output is null, several are an array
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: many-outputs, version: '1.0.0' }
    do:
      - a: { set: { none: '${ empty }', one: '${ .a }', many: '${ .a, .b }' } }
    """
    And given the workflow input is:
    """yaml
    a: 1
    b: 2
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    none: null
    one: 1
    many: [ 1, 2 ]
    """

  Scenario: Zero and the empty text are true
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: zero-and-the-empty-text-are-true, version: '1.0.0' }
    do:
      - each:
          for: { each: v, in: .values }
          do:
            - check: { switch: [ { yes: { when: $v, then: isTrue } }, { no: { then: isFalse } } ] }
            - isTrue: { set: { values: '${ .values }', seen: '${ (.seen // []) + [true] }' }, then: exit }
            - isFalse: { set: { values: '${ .values }', seen: '${ (.seen // []) + [false] }' } }
      - last: { set: { seen: '${ .seen }' } }
    """
    And given the workflow input is:
    """yaml
    values: [ 0, "" ]
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    seen: [ true, true ]
    """

  Scenario: Null and false are false
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: null-and-false-are-false, version: '1.0.0' }
    do:
      - each:
          for: { each: v, in: .values }
          do:
            - check: { switch: [ { yes: { when: $v, then: isTrue } }, { no: { then: isFalse } } ] }
            - isTrue: { set: { values: '${ .values }', seen: '${ (.seen // []) + [true] }' }, then: exit }
            - isFalse: { set: { values: '${ .values }', seen: '${ (.seen // []) + [false] }' } }
      - last: { set: { seen: '${ .seen }' } }
    """
    And given the workflow input is:
    """yaml
    values: [ null, false ]
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    seen: [ false, false ]
    """

  Scenario: Expressions found in data are never evaluated
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: injection, version: '1.0.0' }
    do:
      - a: { set: { name: '${ .name }' } }
      - b: { set: { name: '${ .name }' }, export: { as: . } }
      - c: { set: { name: '${ $context.name }' } }
    """
    And given the workflow input is:
    """yaml
    name: '${ $secrets }'
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    name: '${ $secrets }'
    """

  Scenario: A failing expression is an expression error where it stands
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: failing-expression, version: '1.0.0' }
    do:
      - a: { set: { n: '${ .text + 1 }' } }
    """
    And given the workflow input is:
    """yaml
    text: one
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://serverlessworkflow.io/spec/1.0.0/errors/expression
    status: 400
    instance: /do/0/a
    """

  Scenario: Numbers stay exact and whole numbers print whole
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: numbers, version: '1.0.0' }
    do:
      - a: { set: { big: '${ .big }', half: '${ .n / 2 }', text: '${ "\(10 / 5)" }' } }
    """
    And given the workflow input is:
    """yaml
    big: 9007199254740993
    n: 5
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    big: 9007199254740993
    half: 2.5
    text: '2'
    """

  Scenario: The arguments of a task are there
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: arguments, version: '1.0.0' }
    do:
      - a:
          set:
            name: '${ $task.name }'
            reference: '${ $task.reference }'
            input: '${ $input.x }'
            workflow: '${ $workflow.definition.document.name }'
            given: '${ $workflow.input.x }'
            runtime: '${ $runtime.name }'
    """
    And given the workflow input is:
    """yaml
    x: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    name: a
    reference: /do/0/a
    input: 1
    workflow: arguments
    given: 1
    runtime: windlass
    """

  Scenario: An expression that does not compile is refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: bad-jq, version: '1.0.0' }
    do:
      - a: { set: { n: '${ .a + }' } }
    """
    When the workflow is executed
    Then the definition should be refused with 'bad-expression' at '/do/0/a/set/n'

  Scenario: A variable that nobody defines is refused
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: bad-variable, version: '1.0.0' }
    do:
      - a: { set: { n: '${ $nobody }' } }
    """
    When the workflow is executed
    Then the definition should be refused with 'bad-expression' and '$nobody'
