package differences_test

import (
	"net/http"
	"net/url"
	"strings"
)

const (
	jsonPatch  = "application/json-patch+json"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
	strategic  = "application/strategic-merge-patch+json"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// act sends one request about objects.
func (t *teller) act() {
	names := keys(t.objects)
	if len(names) == 0 || t.chance(12) {
		t.create()
		return
	}
	name := pick(t.dice, names...)
	switch n := t.IntN(100); {
	case n < 20:
		t.update(name)
	case n < 34:
		t.patch(name)
	case n < 50:
		t.apply(pick(t.dice, append(names, "o9")...))
	case n < 62:
		t.updateStatus(name)
	case n < 70:
		t.scale(name)
	case n < 84:
		t.read(name)
	case n < 88:
		t.odd(name)
	case n < 92:
		t.remove(name)
	default:
		t.patchMetadata(name)
	}
}

func (t *teller) version() string { return pick(t.dice, t.versions...) }

func (t *teller) collection(version string) string { return t.path(version, "default") }

// fresh returns an object that most of its schema lets pass, or a smaller one when that was too much.
func (t *teller) fresh(version, name string, fill int) node {
	o, _ := t.object(t.schemaOf(version), fill).(node)
	o["apiVersion"], o["kind"], o["metadata"] = t.group+"/"+version, "Tab", node{"name": name}
	return o
}

func (t *teller) create() {
	name, version := pick(t.dice, "o1", "o2", "o3", "o4"), t.version()
	for _, fill := range []int{70, 40, 0} {
		o := t.fresh(version, name, fill)
		if t.chance(25) {
			o = t.edit(t.schemaOf(version), o).in(o).(node)
		}
		options := t.options("fieldValidation", "dryRun", "fieldManager")
		if t.chance(5) { // what is stored would be listed in another order
			o["metadata"], options = node{"generateName": "gen-", "labels": node{"a": "b"}}, "?dryRun=All"
		}
		if t.sendBody("POST", t.collection(version)+options, o).Code < 300 {
			return
		}
	}
}

// current returns an object as it can be sent again.
func (t *teller) current(name, version string) node {
	o := clone(t.objects[name])
	o["apiVersion"] = t.group + "/" + version
	if !t.chance(8) {
		o["metadata"].(node)["resourceVersion"] = pick(t.dice, "{RV}", "{RV}", "{RV}", "{RV}", "{RV}", "{RV}", "{RV}", "{RV}", "1")
	}
	return o
}

func (t *teller) update(name string) {
	version := t.version()
	o := t.current(name, version)
	if !t.chance(10) {
		o = t.edit(t.schemaOf(version), o).in(o).(node)
	}
	t.sendBody("PUT", t.collection(version)+"/"+name+t.options("fieldValidation", "dryRun", "fieldManager"), o)
}

func (t *teller) updateStatus(name string) {
	version := t.version()
	o := t.current(name, version)
	properties, _ := t.schemaOf(version)["properties"].(node)
	status, _ := properties["status"].(node)
	if now := o["status"]; now == nil || t.chance(30) {
		o["status"] = t.valueOrNot(status)
	} else {
		o["status"] = t.edit(status, now, "status").in(o).(node)["status"]
	}
	if t.chance(20) {
		o["spec"] = "ignored"
	}
	path := t.collection(version) + "/" + name + "/status" + t.options("fieldValidation", "dryRun", "fieldManager")
	switch t.IntN(4) {
	case 0:
		t.sendAs("PATCH", path, mergePatch, node{"status": o["status"], "metadata": node{"labels": node{"s": "t"}}})
	case 1:
		t.sendAs("PATCH", t.collection(version)+"/"+name+"/status"+t.options("manager", "force"), applyPatch, node{"apiVersion": t.group + "/" + version, "kind": "Tab", "status": o["status"]})
	default:
		t.sendBody("PUT", path, o)
	}
}

func (t *teller) patch(name string) {
	version := t.version()
	o := t.objects[name]
	e := t.edit(t.schemaOf(version), o)
	path := t.collection(version) + "/" + name + t.options("fieldValidation", "dryRun", "fieldManager")
	if t.chance(50) {
		t.sendAs("PATCH", path, jsonPatch, e.jsonPatch(t.dice))
		return
	}
	t.sendAs("PATCH", path, mergePatch, e.mergePatch(o))
}

func (t *teller) patchMetadata(name string) {
	change := pick(t.dice, node{"labels": node{"a": "b"}}, node{"labels": node{"a": "not valid!"}}, node{"annotations": node{"a/b": "c"}}, node{"annotations": node{"x": 1}}, node{"finalizers": []any{"plain"}},
		node{"finalizers": []any{"example.com/f", "bad name!"}}, node{"finalizers": nil}, node{"labels": nil}, node{"ownerReferences": []any{node{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}}},
		node{"ownerReferences": []any{node{"name": "p"}}}, node{"unknown": 1}, node{"name": "other"}, node{"namespace": "other"}, node{"generation": 9}, node{"uid": "x"}, node{"resourceVersion": "1"}, node{"labels": []any{}})
	t.sendAs("PATCH", t.collection(t.version())+"/"+name+t.options("fieldValidation", "fieldManager"), mergePatch, node{"metadata": change})
}

func (t *teller) apply(name string) {
	version := t.version()
	o := t.fresh(version, name, 35)
	if t.chance(25) {
		o = t.edit(t.schemaOf(version), o).in(o).(node)
	}
	if t.chance(15) {
		o["metadata"].(node)["labels"] = node{"by": "apply"}
	}
	t.sendAs("PATCH", t.collection(version)+"/"+name+t.options("manager", "force", "dryRun", "fieldValidation"), applyPatch, o)
}

func (t *teller) scale(name string) {
	path := t.collection(t.version()) + "/" + name + "/scale"
	switch t.IntN(3) { // to apply one means something else here
	case 0:
		t.sendAs("PATCH", path+t.options("dryRun"), mergePatch, node{"spec": node{"replicas": pick[any](t.dice, 0, 3, -1, int64(1)<<33, nil, "2")}})
	case 1:
		t.sendBody("PUT", path, node{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": node{"name": name, "namespace": pick(t.dice, "default", "")}, "spec": node{"replicas": t.IntN(4)}})
	default:
		t.send(step{Method: "GET", Path: path})
	}
}

func (t *teller) read(name string) {
	collection := t.collection(t.version())
	switch t.IntN(6) {
	case 0:
		t.send(step{Method: "GET", Path: collection})
	case 1:
		t.send(step{Method: "GET", Path: collection, Accept: asTable})
	case 2:
		t.send(step{Method: "GET", Path: collection + "/" + name, Accept: asTable})
	case 3:
		t.send(step{Method: "GET", Path: collection + "?fieldSelector=" + url.QueryEscape(t.selector())})
	case 4:
		t.send(step{Method: "GET", Path: collection + pick(t.dice, "?limit=1", "?labelSelector=a%3Db", "/none", "/"+name+"/status", "/"+name+"/none")})
	default:
		t.send(step{Method: "GET", Path: collection + "/" + name})
	}
}

func (t *teller) selector() string {
	fields := []string{"metadata.name=o1", "metadata.namespace=default", "spec.none=1", "metadata.labels=x"}
	for _, v := range t.all() {
		selectable, _ := v.(node)["selectableFields"].([]any)
		for _, f := range selectable {
			path, _ := f.(node)["jsonPath"].(string)
			for _, value := range []string{"=a", "!=a", "=1", "=true", "="} {
				fields = append(fields, strings.TrimPrefix(path, ".")+value)
			}
		}
	}
	return pick(t.dice, fields...)
}

// odd sends what is no object of this kind.
func (t *teller) odd(name string) {
	version := t.version()
	o := t.current(name, version)
	pick(t.dice, func() { o["kind"] = "Tob" }, func() { delete(o, "kind") }, func() { o["apiVersion"] = "v1" }, func() { delete(o, "apiVersion") }, func() { o["metadata"].(node)["name"] = "other" },
		func() { o["metadata"].(node)["namespace"] = "other" }, func() { o["metadata"] = "text" }, func() { delete(o, "metadata") }, func() { o["metadata"].(node)["unknown"] = 1 }, func() { o["spec"] = nil },
		func() { o["metadata"].(node)["labels"] = node{"a": 1} }, func() { o["metadata"].(node)["creationTimestamp"] = "never" })()
	path := t.collection(version) + "/" + name
	switch t.IntN(4) {
	case 0:
		t.sendAs("PATCH", path, strategic, node{"spec": node{"a": 1}})
	case 1:
		body := strings.Replace(text(o), `"kind":`, `"spec":{"a":1},"kind":`, 1) // spec is there twice
		o := t.send(step{Method: http.MethodPut, Path: path + t.options("fieldValidation"), Body: []byte(body)})
		t.note(path, o)
	default:
		t.sendBody("PUT", path+t.options("fieldValidation"), o)
	}
}

func (t *teller) remove(name string) {
	path := t.collection(t.version())
	if t.chance(15) {
		t.send(step{Method: "DELETE", Path: path + "?fieldSelector=" + url.QueryEscape("metadata.name="+name)})
	} else {
		t.send(step{Method: "DELETE", Path: path + "/" + name + pick(t.dice, "", "?dryRun=All", "?propagationPolicy=Foreground")})
	}
	if o := t.send(step{Method: "GET", Path: path + "/" + name}); o.Code == http.StatusNotFound {
		delete(t.objects, name)
	}
}
