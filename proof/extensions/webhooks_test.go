package extensions_test

import (
	"fmt"
	gomaps "maps"
	"slices"
	"strings"
)

// hookOf returns a step that creates a configuration with one webhook; fields replace those that it has by default.
func hookOf(kind, name string, fields map[string]string) step {
	all := map[string]string{
		"name": fmt.Sprintf("%q", name+".example.com"), "sideEffects": `"None"`, "admissionReviewVersions": `["v1"]`,
		"clientConfig": `{"url":"{HOOK}/allow","caBundle":"{CA}"}`, "rules": "[" + rule("", "v1", "configmaps") + "]",
	}
	for k, v := range fields {
		all[k] = v
	}
	return step{"POST", fmt.Sprintf(hooks, kind), fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[{%s}]}`, name, members(all)), true}
}

// members are the members of a JSON object, but those that are empty.
func members(all map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(gomaps.Keys(all)) {
		if all[k] != "" {
			out = append(out, fmt.Sprintf("%q:%s", k, all[k]))
		}
	}
	return strings.Join(out, ",")
}

func answersWith(behaviour string) string {
	return fmt.Sprintf(`{"url":"{HOOK}/%s","caBundle":"{CA}"}`, behaviour)
}

const (
	deployments  = "/apis/apps/v1/namespaces/default/deployments"
	pods         = "/api/v1/namespaces/default/pods"
	services     = "/api/v1/namespaces/default/services"
	accounts     = "/api/v1/namespaces/default/serviceaccounts"
	autoscalers  = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	older        = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
	clusterRoles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
)

func get(path string) step         { return step{Method: "GET", Path: path} }
func post(path, body string) step  { return step{Method: "POST", Path: path, Body: body} }
func put(path, body string) step   { return step{Method: "PUT", Path: path, Body: body} }
func patch(path, body string) step { return step{Method: "PATCH", Path: path, Body: body} }
func remove(path string) step      { return step{Method: "DELETE", Path: path} }
func pod(name, fields string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i"}]%s}}`, name, fields)
}

const deployment = `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`

// hookStories are about webhooks that a request concerns, and what it then gets.
func hookStories() []story {
	const scaler = `{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`
	both := func(name string, fields map[string]string, steps ...step) []story {
		var out []story
		for _, kind := range []string{"mutating", "validating"} {
			out = append(out, story{name + ", " + kind, append([]step{hookOf(kind, "h", fields)}, steps...),
				[]step{gone(fmt.Sprintf(hooks, kind) + "/h"), remove(maps + "/c"), remove(maps + "/d"), remove(deployments + "/d"), remove(pods + "/p?gracePeriodSeconds=0"), remove(autoscalers + "/a"),
					remove(services + "/s"), remove(accounts + "/robot"), remove(clusterRoles + "/cr"), remove("/api/v1/namespaces/made")}})
		}
		return out
	}
	var out []story
	add := func(all []story) { out = append(out, all...) }
	for _, how := range []string{"deny", "wordless", "teapot", "nonsense", "empty", "wronguid", "nokind", "error", "none", "redirect", "huge", "slow", "closes", "warns", "notes", "otherversion", "code200", "patches"} {
		fields := map[string]string{"clientConfig": answersWith(how), "timeoutSeconds": "1"}
		add(both("a webhook that "+how, fields, configMap("c")))
		fields["failurePolicy"] = `"Ignore"`
		add(both("a webhook that may fail and "+how, fields, configMap("c")))
	}
	for name, selector := range map[string]string{"that matches": `{"matchLabels":{"kubernetes.io/metadata.name":"default"}}`, "that does not": `{"matchExpressions":[{"key":"a","operator":"Exists"}]}`} {
		add(both("a namespace selector "+name, map[string]string{"namespaceSelector": selector, "clientConfig": answersWith("deny")}, configMap("c")))
		add(both("a namespace selector "+name+" and a cluster's object", map[string]string{"namespaceSelector": selector, "clientConfig": answersWith("deny"), "rules": "[" + rule("rbac.authorization.k8s.io", "v1", "clusterroles") + "]"},
			post(clusterRoles, `{"metadata":{"name":"cr"},"rules":[]}`)))
		add(both("a namespace selector "+name+" and namespaces", map[string]string{"namespaceSelector": selector, "clientConfig": answersWith("deny"), "rules": "[" + rule("", "v1", "namespaces") + "]"},
			post("/api/v1/namespaces?dryRun=All", `{"metadata":{"name":"made","labels":{"a":"b"}}}`), post("/api/v1/namespaces?dryRun=All", `{"metadata":{"name":"default2"}}`)))
	}
	selected := map[string]string{"objectSelector": `{"matchLabels":{"a":"b"}}`, "clientConfig": answersWith("deny")}
	add(both("an object selector", selected, configMap("c"), post(maps, `{"metadata":{"name":"d","labels":{"a":"b"}}}`), patch(maps+"/c", `{"metadata":{"labels":{"a":"b"}}}`)))
	for _, scope := range []string{"*", "Namespaced", "Cluster"} {
		add(both("the scope "+scope, map[string]string{"clientConfig": answersWith("deny"), "rules": fmt.Sprintf(`[{"apiGroups":["","rbac.authorization.k8s.io"],"apiVersions":["v1"],"resources":["configmaps","clusterroles","namespaces"],"operations":["CREATE"],"scope":%q}]`, scope)},
			configMap("c"), post(clusterRoles, `{"metadata":{"name":"cr"},"rules":[]}`), post("/api/v1/namespaces?dryRun=All", `{"metadata":{"name":"made"}}`)))
	}
	for _, operation := range []string{"CREATE", "UPDATE", "DELETE", "CONNECT"} {
		add(both("the operation "+operation, map[string]string{"clientConfig": answersWith("deny"), "rules": fmt.Sprintf(`[{"apiGroups":["*"],"apiVersions":["*"],"resources":["configmaps"],"operations":[%q]}]`, operation)},
			configMap("c"), patch(maps+"/c", `{"data":{"k":"w"}}`), put(maps+"/c", `{"metadata":{"name":"c"}}`), remove(maps+"/c")))
	}
	for _, resources := range []string{"deployments", "deployments/status", "deployments/*", "*/scale", "*", "*/*"} {
		add(both("the resources "+resources, map[string]string{"clientConfig": answersWith("deny"), "rules": fmt.Sprintf(`[{"apiGroups":["apps"],"apiVersions":["v1"],"resources":[%q],"operations":["UPDATE"]}]`, resources)},
			post(deployments, deployment), step{"PATCH", deployments + "/d/scale", `{"spec":{"replicas":2}}`, true}, patch(deployments+"/d/status", `{"status":{"observedGeneration":1}}`), patch(deployments+"/d", `{"metadata":{"labels":{"x":"y"}}}`)))
	}
	for _, policy := range []string{"Exact", "Equivalent"} {
		for _, version := range []string{"v1", "v2", "*"} {
			add(both(fmt.Sprintf("the match %s for version %s", policy, version), map[string]string{"matchPolicy": fmt.Sprintf("%q", policy), "clientConfig": answersWith("allow"),
				"rules": "[" + rule("autoscaling", version, "horizontalpodautoscalers") + "]"}, post(autoscalers, scaler), remove(autoscalers+"/a"),
				post(older, strings.Replace(scaler, `"maxReplicas":3`, `"maxReplicas":3,"targetCPUUtilizationPercentage":50`, 1)), patch(older+"/a", `{"spec":{"maxReplicas":4}}`)))
		}
	}
	add(both("pods and what is beside them", map[string]string{"rules": "[" + rule("", "v1", "pods/*") + "," + rule("", "v1", "pods") + "]"},
		post(pods, pod("p", "")), patch(pods+"/p/status", `{"status":{"message":"m"}}`), patch(pods+"/p/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`),
		post(pods+"/p/binding", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"none"}}`), post(pods+"/p/eviction?dryRun=All", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`),
		remove(pods+"/p?gracePeriodSeconds=0")))
	add(both("several at a time", map[string]string{}, configMap("c"), configMap("d"), remove(maps+"?labelSelector=none")))
	add(both("an apply", map[string]string{}, step{"APPLY", maps + "/c?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"}}`, false},
		step{"APPLY", maps + "/c?fieldManager=m&dryRun=All", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"w"}}`, false}))
	for _, effect := range []string{"None", "NoneOnDryRun", "Some", "Unknown", "Nothing"} {
		add(both("the side effects "+effect, map[string]string{"sideEffects": fmt.Sprintf("%q", effect)}, post(maps+"?dryRun=All", `{"metadata":{"name":"c"}}`)))
	}
	for name, versions := range map[string]string{"beta": `["v1beta1"]`, "beta first": `["v1beta1","v1"]`, "unknown": `["v2"]`, "unknown first": `["v2","v1"]`, "none": `[]`, "twice": `["v1","v1"]`, "invalid": `["V 1"]`} {
		add(both("review versions, "+name, map[string]string{"admissionReviewVersions": versions}, configMap("c")))
	}
	for name, expression := range map[string]string{
		"request": `request.operation == 'CREATE' && request.userInfo.username != '' && request.namespace == 'default'`, "old object": `oldObject == null`,
		"authorizer": `authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()`, "own resource": `authorizer.requestResource.check('create').allowed()`,
		"account": `authorizer.serviceAccount('default','none').requestResource.check('create').allowed()`, "no bool": `'x'`, "wrong": `object.`, "variables": `variables.x == 1`, "params": `params == null`, "namespace": `namespaceObject.metadata.name == 'default'`,
		"costly": strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].all(a, `, 6) + "true" + strings.Repeat(")", 6), "unknown field": `object.metadata.names == 'c'`, "index": `object.data['k'] == 'v'`, "empty": ``,
	} {
		add(both("the condition "+name, map[string]string{"clientConfig": answersWith("deny"), "matchConditions": fmt.Sprintf(`[{"name":"n","expression":%q}]`, expression)}, configMap("c")))
	}
	add(both("two conditions", map[string]string{"clientConfig": answersWith("deny"), "matchConditions": `[{"name":"a","expression":"object.none"},{"name":"b","expression":"false"}]`}, configMap("c")))
	add(both("two conditions of one name", map[string]string{"matchConditions": `[{"name":"a","expression":"true"},{"name":"a","expression":"false"}]`}))
	for name, config := range map[string]string{
		"nothing": `{}`, "both": `{"url":"{HOOK}/allow","service":{"name":"s","namespace":"default"}}`, "http": `{"url":"http://example.com/x"}`, "user": `{"url":"https://a:b@example.com/x"}`, "query": `{"url":"https://example.com/x?a=b"}`,
		"fragment": `{"url":"https://example.com/x#a"}`, "no host": `{"url":"https:///x"}`, "broken": `{"url":"https://[x"}`, "no service": `{"service":{"name":"none","namespace":"default"}}`, "service without a name": `{"service":{"namespace":"default"}}`,
		"port": `{"service":{"name":"s","namespace":"default","port":70000}}`, "path": `{"service":{"name":"s","namespace":"default","path":"x"}}`, "path twice": `{"service":{"name":"s","namespace":"default","path":"/a//b"}}`, "path up": `{"service":{"name":"s","namespace":"default","path":"/a/../b"}}`,
		"bundle": `{"url":"{HOOK}/allow","caBundle":"bm9uZQ=="}`, "other authority": `{"url":"{HOOK}/allow"}`,
	} {
		if name == "no service" || name == "other authority" || name == "bundle" {
			add(both("the client, "+name, map[string]string{"clientConfig": config}, configMap("c")))
			continue
		}
		add(both("the client, "+name, map[string]string{"clientConfig": config}))
	}
	for name, fields := range map[string]map[string]string{
		"no name": {"name": `""`}, "short name": {"name": `"h"`}, "bad name": {"name": `"H_.example.com"`}, "no rules": {"rules": `[]`}, "a rule without groups": {"rules": `[{"apiVersions":["v1"],"resources":["pods"],"operations":["*"]}]`},
		"a rule without operations": {"rules": `[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]`}, "an unknown operation": {"rules": `[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["GET"]}]`},
		"star and more": {"rules": `[{"apiGroups":["*","a"],"apiVersions":["*","v1"],"resources":["*","pods"],"operations":["*","CREATE"]}]`}, "an unknown scope": {"rules": `[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["*"],"scope":"All"}]`},
		"resources that overlap": {"rules": `[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/*","pods/status","*/status","*/*"],"operations":["*"]}]`}, "empty strings": {"rules": `[{"apiGroups":[""],"apiVersions":[""],"resources":[""],"operations":[""]}]`},
		"timeout 0": {"timeoutSeconds": `0`}, "timeout 31": {"timeoutSeconds": `31`}, "no side effects": {"sideEffects": ``}, "failure policy": {"failurePolicy": `"Perhaps"`}, "match policy": {"matchPolicy": `"Perhaps"`}, "reinvocation": {"reinvocationPolicy": `"Always"`},
		"namespace selector": {"namespaceSelector": `{"matchExpressions":[{"key":"a","operator":"In"}]}`}, "object selector": {"objectSelector": `{"matchLabels":{"a b":"c"}}`},
	} {
		add(both("refused: "+name, fields))
	}
	for _, kind := range []string{"mutating", "validating"} {
		path := fmt.Sprintf(hooks, kind)
		one := func(name string) string {
			return fmt.Sprintf(`{"name":%q,"sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"{HOOK}/%s","caBundle":"{CA}"},"rules":[%s]}`, name+".example.com", "allow", rule("", "v1", "configmaps"))
		}
		out = append(out, story{"two webhooks of one name, " + kind, []step{post(path, `{"metadata":{"name":"h"},"webhooks":[`+one("a")+","+one("a")+`]}`)}, []step{gone(path + "/h")}},
			story{"changes of a configuration, " + kind, []step{post(path, `{"metadata":{"name":"h"},"webhooks":[`+one("a")+`]}`), patch(path+"/h", `{"webhooks":[{"name":"b.example.com"}]}`), patch(path+"/h", `{"metadata":{"labels":{"a":"b"}}}`),
				put(path+"/h", `{"metadata":{"name":"h"},"webhooks":[`+one("b")+`]}`), get(path + "/h"), patch(path+"/h", `{"webhooks":null}`)}, []step{gone(path + "/h")}})
	}
	first := hookOf("mutating", "h1", map[string]string{"clientConfig": answersWith("label"), "reinvocationPolicy": `"IfNeeded"`}).Body
	out = append(out, story{"another look", []step{post(fmt.Sprintf(hooks, "mutating"), first), hookOf("mutating", "h2", map[string]string{"clientConfig": answersWith("annotate"), "reinvocationPolicy": `"IfNeeded"`}), configMap("c")},
		[]step{remove(fmt.Sprintf(hooks, "mutating") + "/h1"), gone(fmt.Sprintf(hooks, "mutating") + "/h2"), remove(maps + "/c")}},
		story{"mutating, then validating", []step{post(fmt.Sprintf(hooks, "mutating"), first), hookOf("validating", "h2", map[string]string{"clientConfig": answersWith("allow")}), configMap("c")},
			[]step{remove(fmt.Sprintf(hooks, "mutating") + "/h1"), gone(fmt.Sprintf(hooks, "validating") + "/h2"), remove(maps + "/c")}})
	for _, of := range []string{"merges", "copies", "moves", "tests", "testsnot", "replacesall", "addslist", "noarray", "unknownop", "kind", "namespace", "uid", "version", "status", "unknownfield", "deepnull", "escaped"} {
		add([]story{withHook("a patch that "+of, "mutating", "patch-"+of, rule("", "v1", "configmaps"), "", configMap("c"))})
	}
	slices.SortFunc(out, func(a, b story) int { return strings.Compare(a.name, b.name) })
	return out
}
