Feature: Schemas
  Data is held against the schemas of the definition.

  Scenario: Input that does not fit faults the workflow before its first task
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: schema-input, version: '1.0.0' }
    input: { schema: { document: { type: object, properties: { n: { type: integer } }, required: [ n ] } } }
    do:
      - a: { set: { n: 1 } }
    """
    And given the workflow input is:
    """yaml
    n: one
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://serverlessworkflow.io/spec/1.0.0/errors/validation
    status: 400
    """
    And a should not run

  Scenario: A task's output that does not fit can be caught
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: schema-output, version: '1.0.0' }
    do:
      - t:
          try: [ { a: { set: { n: one }, output: { schema: { document: { type: object, properties: { n: { type: integer } } } } } } } ]
          catch: { errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/validation' } }, do: [ { c: { set: { where: '${ $error.instance }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    where: /do/0/t/try/0/a
    """

  Scenario: What fits goes through
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: schema-fits, version: '1.0.0' }
    input: { schema: { document: { type: object, required: [ n ] } } }
    do:
      - a: { set: { m: '${ .n }' }, export: { as: ., schema: { document: { type: object, required: [ m ] } } } }
    output: { schema: { document: { type: object, required: [ m ] } } }
    """
    And given the workflow input is:
    """yaml
    n: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    m: 1
    """
