Feature: Errors
  Raise, try, catch and retry (points 14 to 16, 18 to 20).

  Scenario: An error says what, where and why
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: raise-all, version: '1.0.0' }
    do:
      - outer: { do: [ { r: { raise: { error: { type: 'https://example.com/x', status: 418, title: T, detail: D } } } } ] }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://example.com/x
    status: 418
    title: T
    detail: D
    instance: /do/0/outer/do/0/r
    """

  Scenario: A reusable error is raised by name, with expressions in it
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: raise-named, version: '1.0.0' }
    use: { errors: { bad: { type: 'https://example.com/bad', status: 422, title: Bad, detail: '${ "no \(.what)" }' } } }
    do:
      - r: { raise: { error: bad } }
    """
    And given the workflow input is:
    """yaml
    what: luck
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://example.com/bad
    status: 422
    detail: no luck
    """

  Scenario: Catch binds the error under its name
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: catch-as, version: '1.0.0' }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 418, title: T, detail: D } } } } ], catch: { as: problem, do: [ { told: { set: { status: '${ $problem.status }', where: '${ $problem.instance }' } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 418
    where: /do/0/t/try/0/r
    """

  Scenario: Catch takes only what its filter names
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: catch-filter, version: '1.0.0' }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 418, title: T, detail: D } } } } ], catch: { errors: { with: { status: 500 } }, do: [ { never: { set: { x: 1 } } } ] } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    status: 418
    """
    And never should not run

  Scenario: When and exceptWhen decide about catching
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: catch-when, version: '1.0.0' }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 503, title: T, detail: D } } } } ], catch: { when: $error.status >= 500, exceptWhen: $error.status == 501, do: [ { c: { set: { caught: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    caught: true
    """

  Scenario: ExceptWhen lets an error pass
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: catch-except, version: '1.0.0' }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 501, title: T, detail: D } } } } ], catch: { when: $error.status >= 500, exceptWhen: $error.status == 501, do: [ { c: { set: { caught: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    status: 501
    """

  Scenario: Standard types are equal in all spellings (1)
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: spelling-1, version: '1.0.0' }
    do:
      - t: { try: [ { a: { set: { n: '${ 1 + {} }' } } } ], catch: { errors: { with: { type: https://serverlessworkflow.io/spec/1.0.0/errors/expression } }, do: [ { c: { set: { caught: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    caught: true
    """

  Scenario: Standard types are equal in all spellings (2)
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: spelling-2, version: '1.0.0' }
    do:
      - t: { try: [ { a: { set: { n: '${ 1 + {} }' } } } ], catch: { errors: { with: { type: https://serverlessworkflow.io/dsl/errors/types/expression } }, do: [ { c: { set: { caught: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    caught: true
    """

  Scenario: Standard types are equal in all spellings (3)
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: spelling-3, version: '1.0.0' }
    do:
      - t: { try: [ { a: { set: { n: '${ 1 + {} }' } } } ], catch: { errors: { with: { type: https://open-workflow-specification.org/spec/1.0.0/errors/expression } }, do: [ { c: { set: { caught: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    caught: true
    """

  Scenario: Standard types are equal in all spellings (4)
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: spelling-4, version: '1.0.0' }
    do:
      - t: { try: [ { a: { set: { n: '${ 1 + {} }' } } } ], catch: { errors: { with: { type: https://open-workflow-specification.org/dsl/errors/types/expression } }, do: [ { c: { set: { caught: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    caught: true
    """

  Scenario: A catch without anything to do swallows the error
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: catch-empty, version: '1.0.0' }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 418, title: T, detail: D } } } } ], catch: {} }
      - after: { set: { went: on } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    went: on
    """

  @crash
  Scenario: Retries come first, then the catch steps once
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: retry-then-do, version: '1.0.0' }
    do:
      - t:
          try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 503, title: T, detail: D } } } } ]
          catch:
            retry: { delay: { milliseconds: 10 }, backoff: { exponential: {} }, limit: { attempt: { count: 2 } } }
            do: [ { gaveUp: { set: { gaveUp: true } } } ]
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    gaveUp: true
    """
    And r should run 3 times
    And gaveUp should run once

  Scenario: Exhausted retries without catch steps raise the error again
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: retry-raise, version: '1.0.0' }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 503, title: T, detail: D } } } } ], catch: { retry: { delay: { milliseconds: 10 }, limit: { attempt: { count: 1 } } } } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    status: 503
    instance: /do/0/t/try/0/r
    """
    And r should run 2 times

  Scenario: A retry policy has conditions of its own
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: retry-when, version: '1.0.0' }
    do:
      - t:
          try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 404, title: T, detail: D } } } } ]
          catch: { retry: { when: $error.status >= 500, delay: { milliseconds: 10 } }, do: [ { c: { set: { caught: true } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    caught: true
    """
    And r should run once

  Scenario: A named retry policy waits as it says
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: retry-named, version: '1.0.0' }
    use: { retries: { twice: { delay: { milliseconds: 150 }, backoff: { linear: {} }, limit: { attempt: { count: 2 } } } } }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 503, title: T, detail: D } } } } ], catch: { retry: twice, do: [ { c: { set: { done: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    done: true
    """
    And r should run 3 times
    And the workflow should last at least 'PT0.45S'

  Scenario: The overall limit ends retries
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: retry-duration, version: '1.0.0' }
    do:
      - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 503, title: T, detail: D } } } } ], catch: { retry: { delay: { milliseconds: 100 }, limit: { duration: { milliseconds: 250 } } }, do: [ { c: { set: { done: true } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    done: true
    """
    And r should run 3 times

  Scenario: An error in catch steps goes outwards
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: catch-faults, version: '1.0.0' }
    do:
      - outer:
          try:
            - t: { try: [ { r: { raise: { error: { type: 'https://example.com/x', status: 418, title: T, detail: D } } } } ], catch: { do: [ { again: { raise: { error: { type: 'https://example.com/x', status: 419, title: T, detail: D } } } } ] } }
          catch: { do: [ { c: { set: { status: '${ $error.status }' } } } ] }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 419
    """

  Scenario: A worker that fails for good is a communication error
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: worker-fails, version: '1.0.0' }
    do:
      - t: { try: [ { w: { call: 'broken:1.0.0@default' } } ], catch: { errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/communication' } }, do: [ { c: { set: { where: '${ $error.instance }' } } } ] } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    where: /do/0/t/try/0/w
    """

  Scenario: A faulted instance is retried at the step that faulted
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: operator-retry, version: '1.0.0' }
    do:
      - a: { set: { n: 1 } }
      - w: { call: 'broken:1.0.0@default' }
    """
    When the workflow is executed
    And the workflow is retried
    Then the workflow should fault
    And a should run once
    And w should run 2 times
