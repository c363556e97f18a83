Feature: Children
  Definitions that start others: run.workflow, child and map (point 26 and section 3).

  @crash
  Scenario: A child's output is the step's
    Given a deployed workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: double, version: '1.0.0' }
    do:
      - rest: { wait: { milliseconds: 100 } }
      - d: { set: { n: '${ .n * 2 }' } }
    """
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: run-double, version: '1.0.0' }
    do:
      - r: { run: { workflow: { namespace: conformance, name: double, version: '1.0.0', input: { n: '${ .n }' } } } }
      - after: { set: { got: '${ .n }' } }
    """
    And given the workflow input is:
    """yaml
    n: 4
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    got: 8
    """

  Scenario: A child's fault can be caught
    Given a deployed workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: failing-child, version: '1.0.0' }
    do:
      - r: { raise: { error: { type: 'https://example.com/child', status: 418 } } }
    """
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: run-failing, version: '1.0.0' }
    do:
      - t:
          try: [ { r: { run: { workflow: { namespace: conformance, name: failing-child, version: '1.0.0' } } } } ]
          catch: { do: [ { c: { set: { status: '${ $error.status }', type: '${ $error.type }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 418
    type: https://example.com/child
    """

  Scenario: Nobody waits for a child that is not awaited
    Given a deployed workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: long-child, version: '1.0.0' }
    do:
      - w: { wait: { hours: 1 } }
    """
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: run-detached, version: '1.0.0' }
    do:
      - r: { run: { workflow: { namespace: conformance, name: long-child, version: '1.0.0' }, await: false } }
    """
    And given the workflow input is:
    """yaml
    kept: true
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    kept: true
    """

  Scenario: A definition that is not there faults the step
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: run-nobody, version: '1.0.0' }
    do:
      - r: { run: { workflow: { namespace: conformance, name: nobody, version: '1.0.0' } } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://serverlessworkflow.io/spec/1.0.0/errors/configuration
    status: 400
    instance: /do/0/r
    """

  @crash
  Scenario: Map goes through items in children and keeps their order
    Given a deployed workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: square, version: '1.0.0' }
    do:
      - s: { set: '${ . * . }' }
    """
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: map-squares, version: '1.0.0' }
    do:
      - m:
          call: map:1.0.0@default
          with: { items: '${ .items }', concurrency: 2, batchSize: 2, workflow: { namespace: conformance, name: square, version: '1.0.0' } }
          output: { as: '{ succeeded, failed, squares: [.results[].output] }' }
    """
    And given the workflow input is:
    """yaml
    items: [ 1, 2, 3, 4, 5 ]
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    succeeded: 5
    failed: 0
    squares: [ 1, 4, 9, 16, 25 ]
    """
