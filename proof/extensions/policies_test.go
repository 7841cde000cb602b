package extensions_test

import (
	"fmt"
	gomaps "maps"
	"slices"
	"strings"
)

// policyOf returns a step that creates a validating policy; fields of the spec replace those that it has by default.
func policyOf(name string, fields map[string]string) step {
	all := map[string]string{
		"matchConstraints": `{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE","UPDATE"]}]}`,
		"validations":      `[{"expression":"true"}]`,
	}
	gomaps.Copy(all, fields)
	return step{"POST", fmt.Sprintf(policies, "validating"), fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s}}`, name, members(all)), true}
}

func bindingOf(name string, fields map[string]string) step {
	all := map[string]string{"policyName": `"p"`, "validationActions": `["Deny"]`}
	gomaps.Copy(all, fields)
	return step{"POST", fmt.Sprintf(bindings, "validating"), fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s}}`, name, members(all)), true}
}

// checking is a spec with one expression.
func checking(expression string) map[string]string {
	return map[string]string{"validations": fmt.Sprintf(`[{"expression":%q}]`, expression)}
}

// telling is a spec that denies with the value of an expression.
func telling(expression string) map[string]string {
	return map[string]string{"validations": fmt.Sprintf(`[{"expression":"false","messageExpression":%q}]`, expression)}
}

var afterPolicies = []step{
	remove(fmt.Sprintf(bindings, "validating") + "/b2"), gone(fmt.Sprintf(bindings, "validating") + "/b"), remove(fmt.Sprintf(policies, "validating") + "/p2"), gone(fmt.Sprintf(policies, "validating") + "/p"),
	remove(maps + "/c"), remove(maps + "/d"), remove(maps + "/limit"), remove(maps + "/limit2"), remove(deployments + "/d"), remove(pods + "/p?gracePeriodSeconds=0"), remove(clusterRoles + "/cr"), remove(autoscalers + "/a"),
}

// policyStories are about what policies let through, and what they say.
func policyStories() []story {
	var out []story
	add := func(name string, steps ...step) { out = append(out, story{name, steps, afterPolicies}) }
	bound := func(name string, spec, binding map[string]string, steps ...step) {
		add(name, append([]step{policyOf("p", spec), bindingOf("b", binding)}, steps...)...)
	}
	rich := post(maps, `{"metadata":{"name":"c","labels":{"tier":"web","n":"12"},"annotations":{"size":"1Gi","url":"https://example.com:8080/a/b?c=d","ip":"10.0.0.1","at":"2024-05-06T07:08:09Z","for":"1h30m"}},"data":{"k":"v","l":"w"},"binaryData":{"b":"aGVsbG8="}}`)
	for name, e := range map[string]string{
		"quantity": `string(quantity(object.metadata.annotations['size']).isGreaterThan(quantity('500Mi'))) + ' ' + string(quantity('1500m').asApproximateFloat()) + ' ' + string(quantity('2k').asInteger())`,
		"url":      `url(object.metadata.annotations['url']).getHost() + url(object.metadata.annotations['url']).getEscapedPath() + string(url(object.metadata.annotations['url']).getQuery())`,
		"ip":       `string(ip(object.metadata.annotations['ip']).family()) + string(cidr('10.0.0.0/8').containsIP(ip(object.metadata.annotations['ip'])))`,
		"time":     `string(timestamp(object.metadata.annotations['at']).getFullYear()) + string(duration(object.metadata.annotations['for']))`,
		"regex":    `object.metadata.name.find('[a-z]') + ' ' + string('a1b2'.findAll('[0-9]'))`,
		"lists":    `string([3,1,2].sum()) + string([3,1,2].max()) + string([1,2,2].isSorted()) + string(['a','b'].indexOf('b'))`,
		"strings":  `'a,b'.split(',').join('-') + 'Ab'.lowerAscii() + 'abc'.substring(1) + '  x '.trim() + 'a'.replace('a','b') + 'abc'.charAt(1)`,
		"format":   `'%s is %d or %.2f in %x %v'.format([object.metadata.name, 7, 1.5, 255, object.data])`,
		"sets":     `string(sets.contains([1,2],[2])) + string(sets.intersects([1],[2])) + string(sets.equivalent([1,1],[1]))`,
		"optional": `object.?metadata.?labels[?'none'].orValue('nothing') + object.?data.?k.value()`,
		"bytes":    `string(object.binaryData.b)`, "types": `string(type(object.data)) + string(type(1u))`, "math": `string(math.greatest(1,2)) + string(math.least([1,2]))`,
		"semver": `string(semver('1.2.3').isLessThan(semver('1.10.0')))`, "named format": `string(format.dns1123Label().validate('A').value())`,
		"comprehension": `['k','l'].map(k, k + '=' + object.data[k]).join(',')`, "two variables": `['k','l'].transformList(i, k, string(i) + k).join(',')`, "base64": `base64.encode(bytes('hello'))`, "ternary": `has(object.data.none) ? 'yes' : 'no'`,
		"in": `string('k' in object.data) + string(1 in [1,2])`, "division": `string(1/0)`, "overflow": `string(9223372036854775807 + 1)`, "index": `[1][3] == 1 ? 'a' : 'b'`, "conversion": `string(int('x'))`, "none": `object.none.more`, "null": `string(object.metadata.deletionTimestamp == null)`,
		"unknown function": `nothing(1)`, "old object": `oldObject == null ? 'new' : 'old'`, "user": `request.userInfo.username == '' ? 'a' : 'b'`, "request": `request.kind.kind + request.resource.resource + request.requestKind.version + string(request.dryRun)`,
		"request's object": `string(has(request.object))`, "authorizer": `string(authorizer.group('').resource('configmaps').namespace('default').check('create').allowed())`, "path": `string(authorizer.path('/healthz').check('get').allowed())`,
		"reason": `authorizer.group('').resource('none').check('get').reason()`, "field selector": `string(authorizer.group('').resource('pods').fieldSelector('spec.nodeName=a').check('list').allowed())`, "own resource": `string(authorizer.requestResource.check('delete').allowed())`,
		"long": `'` + strings.Repeat("x", 200) + `'.replace('x', '` + strings.Repeat("y", 40) + `')`, "lines": `'a\nb'`, "blank": `' '`,
	} {
		bound("a message of "+name, telling(e), nil, rich)
	}
	for name, e := range map[string]string{
		"no bool": `object.data.k`, "dynamic": `object.data.k == 'v' ? dyn(true) : dyn('x')`, "syntax": `object.data[`, "unknown name": `something == 1`, "wrong type": `1 == 'a'`, "empty": ``, "blank": `  `, "params": `params.x == 1`, "variables": `variables.x == 1`,
		"self": `self.x == 1`, "kept word": `object.namespace == 'x'`, "costly": strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].all(a, `, 8) + "true" + strings.Repeat(")", 8), "long": `'` + strings.Repeat("x", 20000) + `' == ''`,
		"new library": `string(hash.md5('a')) == ''`, "macro": `object.data.exists_one(k, k == 'k')`, "proto": `Object{metadata: Object.metadata{}} == object`,
	} {
		bound("the rule "+name, checking(e), nil, rich)
	}
	for _, actions := range []string{`["Deny"]`, `["Warn"]`, `["Audit"]`, `["Warn","Audit"]`, `["Deny","Audit"]`, `["Deny","Warn"]`, `[]`, `["Deny","Deny"]`, `["Perhaps"]`, `["Deny","Warn","Audit"]`} {
		bound("the actions "+actions, checking("false"), map[string]string{"validationActions": actions}, rich)
		bound("an error with the actions "+actions, checking("object.none == 1"), map[string]string{"validationActions": actions}, rich)
	}
	for _, reason := range []string{"Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge", "NotFound", "Teapot"} {
		bound("the reason "+reason, map[string]string{"validations": fmt.Sprintf(`[{"expression":"false","reason":%q,"message":"no"}]`, reason)}, nil, rich)
	}
	for name, message := range map[string]string{"of lines": `a\nb`, "that is long": strings.Repeat("x", 6000), "with blanks": ` a `} {
		bound("a text "+name, map[string]string{"validations": fmt.Sprintf(`[{"expression":"false","message":"%s"}]`, message)}, nil, rich)
	}
	bound("several rules", map[string]string{"validations": `[{"expression":"object.data.k == 'x'","message":"one"},{"expression":"true"},{"expression":"object.none","message":"two"},{"expression":"false","message":"three"}]`}, nil, rich)
	for name, variables := range map[string]string{
		"that use each other": `[{"name":"a","expression":"object.data.k"},{"name":"b","expression":"variables.a + 'x'"}]`, "in the wrong order": `[{"name":"b","expression":"variables.a + 'x'"},{"name":"a","expression":"object.data.k"}]`,
		"of one name": `[{"name":"b","expression":"'x'"},{"name":"b","expression":"'y'"}]`, "that fail": `[{"name":"b","expression":"object.none.none"}]`, "that do not compile": `[{"name":"b","expression":"object."}]`, "with a bad name": `[{"name":"b c","expression":"'x'"}]`,
		"without a name": `[{"expression":"'x'"}]`, "that are lists": `[{"name":"b","expression":"string(object.data.map(k, k))"}]`,
	} {
		bound("variables "+name, map[string]string{"variables": variables, "validations": `[{"expression":"variables.b == 'z'","messageExpression":"'b is ' + variables.b"}]`}, nil, rich)
	}
	for name, conditions := range map[string]string{"that hold": `[{"name":"a","expression":"object.data.k == 'v'"}]`, "that do not": `[{"name":"a","expression":"object.data.k == 'x'"}]`, "that fail": `[{"name":"a","expression":"object.none"}]`,
		"of which one fails and one does not hold": `[{"name":"a","expression":"object.none"},{"name":"b","expression":"false"}]`, "that do not compile": `[{"name":"a","expression":"object."}]`, "with parameters": `[{"name":"a","expression":"params == null"}]`,
		"with a bad name": `[{"name":"a b","expression":"true"}]`, "with variables": `[{"name":"a","expression":"variables.x"}]`} {
		spec := checking("false")
		spec["matchConditions"] = conditions
		bound("conditions "+name, spec, nil, rich)
		spec["failurePolicy"] = `"Ignore"`
		bound("conditions "+name+", ignoring failures", spec, nil, rich)
	}
	withParams := func(e string) map[string]string {
		spec := checking(e)
		spec["paramKind"] = `{"apiVersion":"v1","kind":"ConfigMap"}`
		return spec
	}
	limit := func(name, value string) step {
		s := post(maps, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"limit":"yes"}},"data":{"want":%q}}`, name, value))
		s.Settles = true
		return s
	}
	for name, ref := range map[string]string{
		"by name": `{"name":"limit","namespace":"default","parameterNotFoundAction":"Deny"}`, "by name, in the object's namespace": `{"name":"limit","parameterNotFoundAction":"Deny"}`, "that is missing and allowed": `{"name":"none","namespace":"default","parameterNotFoundAction":"Allow"}`,
		"by selector": `{"selector":{"matchLabels":{"limit":"yes"}},"namespace":"default","parameterNotFoundAction":"Deny"}`, "by a selector that finds none": `{"selector":{"matchLabels":{"limit":"no"}},"parameterNotFoundAction":"Deny"}`, "by an empty selector": `{"selector":{},"parameterNotFoundAction":"Allow"}`,
		"by both": `{"name":"limit","selector":{},"parameterNotFoundAction":"Deny"}`, "by nothing": `{"parameterNotFoundAction":"Deny"}`, "without an action": `{"name":"limit"}`, "with another action": `{"name":"limit","parameterNotFoundAction":"Perhaps"}`,
	} {
		add("parameters "+name, limit("limit", "x"), limit("limit2", "v"), policyOf("p", withParams("object.metadata.name.startsWith('limit') || object.data.k == params.data.want")), bindingOf("b", map[string]string{"paramRef": ref}),
			step{Method: "GET", Path: fmt.Sprintf(policies, "validating") + "/p", Settles: true}, rich)
	}
	add("a policy with parameters and a binding without", policyOf("p", withParams("has(params.data)")), bindingOf("b", nil), rich)
	add("a binding with parameters and a policy without", policyOf("p", checking("false")), bindingOf("b", map[string]string{"paramRef": `{"name":"x","parameterNotFoundAction":"Deny"}`}), rich)
	for name, kind := range map[string]string{"a cluster's kind": `{"apiVersion":"v1","kind":"Namespace"}`, "an unknown kind": `{"apiVersion":"example.com/v1","kind":"None"}`, "no kind": `{"apiVersion":"v1"}`, "a bad version": `{"apiVersion":"a/b/c","kind":"None"}`} {
		spec := checking("has(params.metadata.name)")
		spec["paramKind"] = kind
		add("parameters of "+name, policyOf("p", spec), bindingOf("b", map[string]string{"paramRef": `{"name":"default","parameterNotFoundAction":"Deny"}`}), rich)
		add("parameters of "+name+" in a namespace", policyOf("p", spec), bindingOf("b", map[string]string{"paramRef": `{"name":"default","namespace":"default","parameterNotFoundAction":"Deny"}`}), rich)
	}
	for name, match := range map[string]string{
		"excluded": `{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"operations":["*"]}],"excludeResourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]}`,
		"named":    `{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"],"resourceNames":["d"]}]}`, "of other labels": `{"objectSelector":{"matchLabels":{"tier":"db"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]}`,
		"of those labels": `{"objectSelector":{"matchLabels":{"tier":"web"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]}`,
		"of a namespace":  `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]}`, "of another namespace": `{"namespaceSelector":{"matchLabels":{"a":"b"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]}`,
		"nothing": `{}`, "no rules": `{"resourceRules":[]}`, "bad operations": `{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["GET"]}]}`, "connections": `{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/exec"],"operations":["CONNECT"]}]}`,
		"bad scope": `{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"],"scope":"None"}]}`, "bad policy": `{"matchPolicy":"None","resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]}`,
		"themselves": `{"resourceRules":[{"apiGroups":["admissionregistration.k8s.io"],"apiVersions":["*"],"resources":["*"],"operations":["*"]}]}`,
	} {
		spec := checking("false")
		spec["matchConstraints"] = match
		bound("about what is "+name, spec, nil, rich)
		bound("bound to what is "+name, checking("false"), map[string]string{"matchResources": match}, rich)
	}
	for name, notes := range map[string]string{"good": `[{"key":"a","valueExpression":"'x'"}]`, "null": `[{"key":"a","valueExpression":"null"}]`, "of a number": `[{"key":"a","valueExpression":"1"}]`, "bad": `[{"key":"a b","valueExpression":"'x'"}]`, "of one key": `[{"key":"a","valueExpression":"'x'"},{"key":"a","valueExpression":"'y'"}]`,
		"that fail": `[{"key":"a","valueExpression":"object.none"}]`, "that are long": `[{"key":"a","valueExpression":"'` + strings.Repeat("x", 6000) + `'"}]`} {
		bound("annotations: "+name, map[string]string{"validations": ``, "auditAnnotations": notes}, nil, rich)
	}
	bound("neither rules nor annotations", map[string]string{"validations": `[]`}, nil, rich)
	bound("a failure policy that nobody knows", map[string]string{"failurePolicy": `"Perhaps"`}, nil)
	add("a binding to nothing", bindingOf("b", map[string]string{"policyName": `""`}))
	add("a binding to a bad name", bindingOf("b", map[string]string{"policyName": `"A B"`}))
	add("a policy of a bad name", policyOf("P_", nil))
	add("two policies", policyOf("p", telling(`'one'`)), policyOf("p2", telling(`'two'`)), bindingOf("b", nil), bindingOf("b2", map[string]string{"policyName": `"p2"`}), rich)
	add("two bindings", policyOf("p", telling(`'one'`)), bindingOf("b", nil), bindingOf("b2", map[string]string{"validationActions": `["Warn"]`}), rich)
	everything := func(group, resource, operation string) map[string]string {
		spec := telling(`request.operation + ' ' + request.resource.resource + ' ' + request.subResource + ' ' + string(object == null) + string(oldObject == null) + string(request.options.kind)`)
		spec["matchConstraints"] = fmt.Sprintf(`{"resourceRules":[{"apiGroups":[%q],"apiVersions":["*"],"resources":[%q],"operations":[%q]}]}`, group, resource, operation)
		return spec
	}
	bound("a deletion", everything("", "configmaps", "DELETE"), nil, rich, remove(maps+"/c"), remove(maps+"?labelSelector=tier%3Dweb"))
	bound("an update", everything("", "configmaps", "UPDATE"), nil, rich, patch(maps+"/c", `{"data":{"k":"w"}}`), put(maps+"/c?dryRun=All", `{"metadata":{"name":"c"}}`))
	bound("a scale of a policy", everything("apps", "deployments/scale", "*"), nil, post(deployments, deployment), patch(deployments+"/d/scale", `{"spec":{"replicas":2}}`))
	bound("a status", everything("apps", "deployments/status", "*"), nil, post(deployments, deployment), patch(deployments+"/d/status", `{"status":{"replicas":2}}`))
	bound("a binding of a pod", everything("", "pods/binding", "*"), nil, post(pods, pod("p", "")), post(pods+"/p/binding", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"none"}}`))
	bound("an eviction", everything("", "pods/eviction", "*"), nil, post(pods, pod("p", "")), post(pods+"/p/eviction?dryRun=All", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`))
	bound("a connection", everything("", "pods/exec", "CONNECT"), nil, post(pods, pod("p", "")), post(pods+"/p/exec?command=a", ``))
	bound("a cluster's object", everything("rbac.authorization.k8s.io", "clusterroles", "CREATE"), nil, post(clusterRoles, `{"metadata":{"name":"cr"},"rules":[]}`))
	bound("another version", everything("autoscaling", "horizontalpodautoscalers", "CREATE"), nil, post(older, `{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`))
	for name, e := range map[string]string{"good": `object.spec.replicas < 5`, "an unknown field": `object.spec.replica < 5`, "a wrong type": `object.spec.replicas == 'x'`, "a message": `true`} {
		spec := checking(e)
		spec["matchConstraints"] = `{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"],"operations":["CREATE"]}]}`
		if name == "a message" {
			spec["validations"] = `[{"expression":"true","messageExpression":"object.spec.none"}]`
		}
		made := policyOf("p", spec)
		add("the types of "+name, made, get(fmt.Sprintf(policies, "validating")+"/p"))
	}
	slices.SortFunc(out, func(a, b story) int { return strings.Compare(a.name, b.name) })
	return out
}

var afterMutations = []step{gone(fmt.Sprintf(bindings, "mutating") + "/m"), gone(fmt.Sprintf(policies, "mutating") + "/m"), remove(maps + "/c"), remove(deployments + "/d"), remove(pods + "/p?gracePeriodSeconds=0")}

// mutationStories are about mutating policies.
func mutationStories() []story {
	var out []story
	mutating := func(name, resource string, mutations, more string, steps ...step) {
		group := ""
		if resource == "deployments" {
			group = "apps"
		}
		made := step{"POST", fmt.Sprintf(policies, "mutating"), fmt.Sprintf(`{"metadata":{"name":"m"},"spec":{"reinvocationPolicy":"IfNeeded","matchConstraints":{"resourceRules":[{"apiGroups":[%q],"apiVersions":["v1"],"resources":[%q],"operations":["CREATE"]}]},"mutations":[%s]%s}}`,
			group, resource, mutations, more), true}
		out = append(out, story{"a policy that mutates: " + name, append([]step{made, {"POST", fmt.Sprintf(bindings, "mutating"), `{"metadata":{"name":"m"},"spec":{"policyName":"m"}}`, true}}, steps...), afterMutations})
	}
	apply := func(e string) string {
		return fmt.Sprintf(`{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%q}}`, e)
	}
	jsonPatch := func(e string) string {
		return fmt.Sprintf(`{"patchType":"JSONPatch","jsonPatch":{"expression":%q}}`, e)
	}
	rich := post(maps, `{"metadata":{"name":"c","labels":{"a":"b"}},"data":{"k":"v","l":"w"}}`)
	for name, e := range map[string]string{
		"labels": `Object{metadata: Object.metadata{labels: {'x': 'y'}}}`, "data": `Object{data: {'k': object.data.k + '!', 'new': 'n'}}`, "a name": `Object{metadata: Object.metadata{name: 'other'}}`, "an unknown field": `Object{none: 'x'}`, "nothing": `Object{}`,
		"a map": `{'data': {'a': 'b'}}`, "a wrong type": `Object{data: {'k': 1}}`, "an error": `Object{data: {'k': object.none}}`, "a condition": `has(object.metadata.labels) ? Object{metadata: Object.metadata{labels: {'x': 'y'}}} : Object{}`, "a kind": `Object{kind: 'Secret'}`,
		"null": `null`, "a number": `1`, "syntax": `Object{`, "another type": `Object{metadata: Object.spec{}}`, "the kind it is": `Object{apiVersion: 'v1', kind: 'ConfigMap'}`,
	} {
		mutating("applies "+name, "configmaps", apply(e), "", rich)
	}
	for name, e := range map[string]string{
		"add": `[JSONPatch{op: 'add', path: '/data/x', value: 'y'}]`, "replace": `[JSONPatch{op: 'replace', path: '/data/k', value: 'y'}]`, "remove": `[JSONPatch{op: 'remove', path: '/data/k'}]`, "test": `[JSONPatch{op: 'test', path: '/data/k', value: 'v'}, JSONPatch{op: 'add', path: '/data/x', value: 'y'}]`,
		"a failed test": `[JSONPatch{op: 'test', path: '/data/k', value: 'no'}]`, "copy": `[JSONPatch{op: 'copy', from: '/data/k', path: '/data/x'}]`, "move": `[JSONPatch{op: 'move', from: '/data/k', path: '/data/x'}]`, "no such path": `[JSONPatch{op: 'remove', path: '/data/none'}]`, "a bad op": `[JSONPatch{op: 'none', path: '/data/k'}]`,
		"nothing": `[]`, "a typed value": `[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata.labels{}}]`, "a map": `[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}}]`, "an escaped key": `[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b~c'), value: 'y'}]`,
		"a wrong type": `[JSONPatch{op: 'add', path: '/data/x', value: 1}]`, "no list": `JSONPatch{op: 'add', path: '/data/x', value: 'y'}`, "a list of others": `['a']`, "an unknown field": `[JSONPatch{op: 'add', path: '/none', value: 'y'}]`, "a bad path": `[JSONPatch{op: 'add', path: 'data', value: 'y'}]`, "no op": `[JSONPatch{path: '/data/x', value: 'y'}]`,
	} {
		mutating("patches with "+name, "configmaps", jsonPatch(e), "", rich)
	}
	mutating("adds a container", "pods", apply(`Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'side', image: 'i', restartPolicy: 'Always'}]}}`), "", post(pods, pod("p", "")))
	mutating("changes a container", "pods", apply(`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: 'Never'})}}`), "", post(pods, pod("p", "")))
	mutating("applies an atomic list", "pods", apply(`Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['a', 'b']}]}}`), "", post(pods, pod("p", "")))
	mutating("changes replicas", "deployments", apply(`Object{spec: Object.spec{replicas: 3}}`), "", post(deployments, deployment))
	mutating("two in turn", "configmaps", jsonPatch(`[JSONPatch{op: 'add', path: '/data/x', value: 'y'}]`)+","+jsonPatch(`[JSONPatch{op: 'copy', from: '/data/x', path: '/data/z'}]`), "", rich)
	mutating("variables", "configmaps", apply(`Object{data: {'x': variables.v}}`), `,"variables":[{"name":"v","expression":"object.data.k + '!'"}]`, rich)
	mutating("a condition", "configmaps", apply(`Object{data: {'x': 'y'}}`), `,"matchConditions":[{"name":"n","expression":"object.data.k != 'v'"}]`, rich)
	mutating("an ignored error", "configmaps", jsonPatch(`[JSONPatch{op: 'remove', path: '/none/a'}]`), `,"failurePolicy":"Ignore"`, rich)
	mutating("no mutations", "configmaps", "", "")
	mutating("both kinds", "configmaps", `{"patchType":"JSONPatch","jsonPatch":{"expression":"[]"},"applyConfiguration":{"expression":"Object{}"}}`, "")
	mutating("no expression", "configmaps", `{"patchType":"JSONPatch"}`, "")
	mutating("an unknown type", "configmaps", `{"patchType":"Strategic","jsonPatch":{"expression":"[]"}}`, "")
	slices.SortFunc(out, func(a, b story) int { return strings.Compare(a.name, b.name) })
	return out
}
