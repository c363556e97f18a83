Feature: Calls over HTTP
  What a call sends, what it yields, and how it fails.

  @crash
  Scenario: Method, headers, query and body are sent as written, with an idempotency key
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-sends, version: '1.0.0' }
    do:
      - send:
          call: http
          with:
            method: post
            endpoint: https://api.conformance.test/echo/orders
            headers: { X-Kind: '${ .kind }' }
            query: { page: '2' }
            body: { order: '${ .order }' }
    """
    And given the workflow input is:
    """yaml
    kind: express
    order: 7
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    method: POST
    path: /echo/orders
    query: page=2
    token: ''
    kind: express
    hasKey: true
    body: { order: 7 }
    """

  Scenario: The path takes values from the data
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-path, version: '1.0.0' }
    do:
      - send:
          call: http
          with: { method: get, endpoint: 'https://api.conformance.test/echo/{id}' }
          output: { as: .path }
    """
    And given the workflow input is:
    """yaml
    id: a b/c
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    /echo/a%20b%2Fc
    """

  Scenario: A bearer token is sent
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-bearer, version: '1.0.0' }
    use: { authentications: { api: { bearer: { token: '${ .token }' } } } }
    do:
      - send:
          call: http
          with:
            method: get
            endpoint: { uri: 'https://api.conformance.test/echo', authentication: { use: api } }
          output: { as: .token }
    """
    And given the workflow input is:
    """yaml
    token: t-1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    Bearer t-1
    """

  Scenario: A text is a text
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-text, version: '1.0.0' }
    do:
      - get: { call: http, with: { method: get, endpoint: 'https://api.conformance.test/text' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    plain words
    """

  Scenario: The raw answer comes in base64
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-raw, version: '1.0.0' }
    do:
      - get: { call: http, with: { method: get, endpoint: 'https://api.conformance.test/text', output: raw } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    cGxhaW4gd29yZHM=
    """

  Scenario: A status of 400 and above is a communication error with that status
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-missing, version: '1.0.0' }
    do:
      - get: { call: http, with: { method: get, endpoint: 'https://api.conformance.test/status/404' } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://serverlessworkflow.io/spec/1.0.0/errors/communication
    status: 404
    instance: /do/0/get
    """

  Scenario: The error of a call can be caught by its status
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-caught, version: '1.0.0' }
    do:
      - guarded:
          try:
            - get: { call: http, with: { method: get, endpoint: 'https://api.conformance.test/status/503' } }
          catch:
            errors: { with: { status: 503 } }
            do:
              - later: { set: { status: '${ $error.status }' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 503
    """

  Scenario: A redirect is an error unless it is asked for
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-moved, version: '1.0.0' }
    do:
      - get: { call: http, with: { method: get, endpoint: 'https://api.conformance.test/moved' } }
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://serverlessworkflow.io/spec/1.0.0/errors/communication
    status: 302
    """

  Scenario: A redirect that is asked for is followed
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-follows, version: '1.0.0' }
    do:
      - get:
          call: http
          with: { method: get, endpoint: 'https://api.conformance.test/moved', redirect: true }
          output: { as: .path }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    /echo
    """

  Scenario: A connector that this engine does not have is refused at deploy
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: conformance, name: http-grpc, version: '1.0.0' }
    do:
      - greet:
          call: grpc
          with:
            proto: { endpoint: 'https://api.conformance.test/greet.proto' }
            service: { name: Greeter, host: api.conformance.test }
            method: greet
    """
    When the workflow is executed
    Then the definition should be refused with 'configuration', 'grpc'
