package differences_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// teller tells a story: it decides each request by the dice, and by what has been answered before.
type teller struct {
	dice
	*subject
	send func(step) outcome
	// objects are those that exist, as they were answered last.
	objects map[string]node
}

// tell tells one story about one definition.
func (t *teller) tell(group string) {
	t.subject, t.objects = t.definition(group), map[string]node{}
	if !t.define() {
		return
	}
	const many = 24
	for i := range many {
		if i == many/3 || i == many*2/3 {
			t.redefine()
		}
		t.act()
	}
	for _, name := range keys(t.objects) { // otherwise their finalizers might keep them, and the definition
		t.sendAs("PATCH", t.collection(t.versions[0])+"/"+name, mergePatch, node{"metadata": node{"finalizers": nil}})
	}
	t.send(step{Method: http.MethodDelete, Path: definitions + "/" + t.name()})
}

// define tries definitions until one is accepted.
func (t *teller) define() bool {
	good := t.body
	for range t.IntN(4) {
		t.body = clone(good)
		t.spoil(t.subject)
		if o := t.sendBody("POST", definitions+t.options("fieldValidation"), t.body); o.Code == http.StatusCreated {
			return t.established()
		}
	}
	t.body = good
	for range 6 {
		o := t.sendBody("POST", definitions, t.body)
		if o.Code == http.StatusCreated {
			return t.established()
		}
		t.repair(o)
	}
	return false
}

// established waits for a definition, and tells whether its objects are served as the story expects.
func (t *teller) established() bool {
	name, _ := t.body["metadata"].(node)["name"].(string)
	o := t.send(step{Method: http.MethodGet, Path: definitions + "/" + name, Until: isEstablished})
	if name != t.name() || !strings.Contains(text(o.Answer), "InitialNamesAccepted") || t.body["spec"].(node)["scope"] != t.scope {
		t.send(step{Method: http.MethodDelete, Path: definitions + "/" + name})
		return false
	}
	return true
}

// redefine changes the definition. What is stored may not fit the new one.
func (t *teller) redefine() {
	before := t.body
	t.body = clone(before)
	for range 1 + t.IntN(4) {
		t.change(schemaIn(pick(t.dice, t.all()...).(node)))
	}
	if t.chance(25) {
		t.spoil(t.subject)
	}
	t.body["metadata"].(node)["resourceVersion"] = "{RV}"
	for range 4 {
		o := t.sendBody("PUT", definitions+"/"+t.name(), t.body)
		if o.Code == http.StatusOK {
			t.send(step{Method: http.MethodGet, Path: definitions + "/" + t.name(), Until: isEstablished})
			return
		}
		t.repair(o)
	}
	t.body = before
}

var pathSteps = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// repair removes from the definition what was found wrong in it.
func (t *teller) repair(o outcome) {
	status, _ := o.Answer.(node)
	details, _ := status["details"].(node)
	causes, _ := details["causes"].([]any)
	for _, c := range causes {
		path, _ := c.(node)["field"].(string)
		remove(t.body, pathSteps.FindAllString(path, -1))
	}
}

// remove removes what a path leads to, with the rule or the default that contains it.
func remove(v any, path []string) {
	for len(path) > 0 {
		name := strings.Trim(path[0], "[]")
		last := len(path) == 1 || name == "x-kubernetes-validations" || name == "default" || name == "selectableFields" || name == "additionalPrinterColumns" || name == "scale"
		switch at := v.(type) {
		case node:
			if last || at[name] == nil {
				if name != "properties" {
					delete(at, name)
				}
				return
			}
			v = at[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(at) {
				return
			}
			v = at[i]
		default:
			return
		}
		path = path[1:]
	}
}

// options returns some of the options of a write as a query.
func (t *teller) options(may ...string) string {
	q := url.Values{}
	for _, name := range may {
		switch {
		case name == "fieldValidation" && t.chance(60):
			q.Set(name, pick(t.dice, "Strict", "Strict", "Warn", "Ignore"))
		case name == "dryRun" && t.chance(10):
			q.Set(name, "All")
		case name == "fieldManager" && t.chance(40), name == "manager":
			q.Set("fieldManager", pick(t.dice, "one", "two"))
		case name == "force" && t.chance(40):
			q.Set(name, "true")
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (t *teller) sendBody(method, path string, body any) outcome {
	return t.sendAs(method, path, "", body)
}

func (t *teller) sendAs(method, path, as string, body any) outcome {
	raw := json.RawMessage(text(body))
	o := t.send(step{Method: method, Path: path, Type: as, Body: raw})
	t.note(path, o)
	return o
}

// note keeps what an answer tells of an object.
func (t *teller) note(path string, o outcome) {
	object, _ := o.Answer.(node)
	name, _ := metadataOf(object)["name"].(string)
	if o.Code >= 300 || object["kind"] != "Tab" || strings.Contains(path, "dryRun") || name == "" || strings.Contains(name, "XXXXX") {
		return
	}
	object = clone(object)
	delete(object["metadata"].(node), "managedFields")
	t.objects[name] = object
}
