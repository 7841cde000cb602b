package differences_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// converter is a webhook that converts tabs: what v1 calls spec.a, v2 calls spec.b. The URL's path says what it does
// wrong.
type converter struct {
	*httptest.Server
	authority string
}

func startConverter(t testing.TB) *converter {
	c := &converter{Server: httptest.NewUnstartedServer(http.HandlerFunc(convert))}
	c.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.StartTLS()
	t.Cleanup(c.Close)
	c.authority = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}))
	return c
}

func convert(w http.ResponseWriter, r *http.Request) {
	content, _ := io.ReadAll(r.Body)
	review, _ := decoded(content).(node)
	request, _ := review["request"].(node)
	objects, _ := request["objects"].([]any)
	to, _ := request["desiredAPIVersion"].(string)
	for _, o := range objects {
		rename(o.(node), to)
	}
	response := node{"uid": request["uid"], "convertedObjects": objects, "result": node{"status": "Success"}}
	delete(review, "request")
	review["response"] = response
	spoilt := mistakes[strings.TrimPrefix(r.URL.Path, "/")]
	if spoilt != nil {
		spoilt(review, response, objects)
	}
	switch r.URL.Path {
	case "/error":
		http.Error(w, "out of order", http.StatusInternalServerError)
	case "/closes":
		panic(http.ErrAbortHandler)
	case "/nonsense":
		_, _ = io.WriteString(w, "nonsense")
	default:
		_ = json.NewEncoder(w).Encode(review)
	}
}

// rename converts an object.
func rename(o node, to string) {
	from, into := "a", "b"
	if strings.HasSuffix(to, "/v1") {
		from, into = into, from
	}
	if spec, ok := o["spec"].(node); ok && spec[from] != nil {
		spec[into] = spec[from]
		delete(spec, from)
	}
	o["apiVersion"] = to
}

// onEach is a mistake in each object.
func onEach(f func(o, metadata node)) func(review, response node, objects []any) {
	return func(_, _ node, objects []any) {
		for _, o := range objects {
			f(o.(node), o.(node)["metadata"].(node))
		}
	}
}

// mistakes are what a converter may do wrong, and what it may do.
var mistakes = map[string]func(review, response node, objects []any){
	"none": nil, "error": nil, "closes": nil, "nonsense": nil,
	"wronguid":     func(_, response node, _ []any) { response["uid"] = "other" },
	"nouid":        func(_, response node, _ []any) { delete(response, "uid") },
	"fewer":        func(_, response node, objects []any) { response["convertedObjects"] = objects[1:] },
	"more":         func(_, response node, objects []any) { response["convertedObjects"] = append(objects, objects[0]) },
	"nulls":        func(_, response node, objects []any) { response["convertedObjects"] = make([]any, len(objects)) },
	"noresult":     func(_, response node, _ []any) { delete(response, "result") },
	"noresponse":   func(review, _ node, _ []any) { delete(review, "response") },
	"otherreview":  func(review, _ node, _ []any) { review["apiVersion"] = "apiextensions.k8s.io/v1beta1" },
	"otherkind":    func(review, _ node, _ []any) { review["kind"] = "Review" },
	"fails":        func(_, response node, _ []any) { response["result"] = node{"status": "Failure", "message": "no way"} },
	"failsquietly": func(_, response node, _ []any) { response["result"] = node{"status": "Failure"} },
	"failscoded": func(_, response node, _ []any) {
		response["result"] = node{"status": "Failure", "message": "no way", "reason": "Forbidden", "code": 403}
	},
	"noversion":   onEach(func(o, _ node) { delete(o, "apiVersion") }),
	"oldversion":  onEach(func(o, _ node) { o["apiVersion"] = "other.example.com/v1" }),
	"changedkind": onEach(func(o, _ node) { o["kind"] = "Tob" }),
	"renamed":     onEach(func(_, metadata node) { metadata["name"] = "other" }),
	"moved":       onEach(func(_, metadata node) { metadata["namespace"] = "other" }),
	"otheruid":    onEach(func(_, metadata node) { metadata["uid"] = "other" }),
	"labels":      onEach(func(_, metadata node) { metadata["labels"] = node{"a": "b"} }),
	"badlabels":   onEach(func(_, metadata node) { metadata["labels"] = node{"a": "not valid!"} }),
	"nolabels":    onEach(func(_, metadata node) { metadata["labels"], metadata["annotations"] = nil, nil }),
	"finalizers":  onEach(func(_, metadata node) { metadata["finalizers"], metadata["generation"] = []any{"example.com/f"}, 7 }),
	"metadatagone": onEach(func(o, _ node) {
		delete(o, "metadata")
	}),
	"unknown": onEach(func(o, _ node) { o["spec"].(node)["z"] = 1 }),
	"invalid": onEach(func(o, _ node) { o["spec"] = "text" }),
}

// conversions are stories about webhooks that convert objects.
func conversions() []told {
	var out []told
	for _, how := range keys(mistakes) {
		out = append(out, conversion(how))
	}
	return out
}

func conversion(how string) told {
	group := how + ".convert.example.com"
	definition := named(group, "tabs", "tab", "Tab")
	spec := definition["spec"].(node)
	v1 := spec["versions"].([]any)[0].(node)
	v2 := decoded([]byte(strings.ReplaceAll(text(v1), `"a"`, `"b"`))).(node)
	v2["name"], v2["storage"] = "v2", false
	schemaIn(v2)["properties"].(node)["spec"].(node)["properties"].(node)["c"] = node{"type": "string", "default": "d"} // not for what is stored as v1
	spec["versions"] = []any{v1, v2}
	spec["conversion"] = node{"strategy": "Webhook", "webhook": node{"conversionReviewVersions": []any{"v1"}, "clientConfig": node{"url": "{HOOK}/" + how, "caBundle": "{CA}"}}}
	one, two := "/apis/"+group+"/v1/namespaces/default/tabs", "/apis/"+group+"/v2/namespaces/default/tabs"
	object := func(version, name, field, value string, more ...any) []byte {
		meta := node{"name": name, "labels": node{"is": "kept"}}
		for _, version := range more {
			meta["resourceVersion"] = version
		}
		return []byte(text(node{"apiVersion": group + "/" + version, "kind": "Tab", "metadata": meta, "spec": node{field: value}}))
	}
	return told{fmt.Sprintf("a conversion with %s", how), []step{
		post(definition), await("tabs."+group, isEstablished),
		{Method: "POST", Path: one, Body: object("v1", "x", "a", "1")}, {Method: "POST", Path: one, Body: object("v1", "y", "a", "2")},
		{Method: "GET", Path: two + "/x"}, {Method: "GET", Path: two}, {Method: "GET", Path: two, Accept: asTable}, {Method: "POST", Path: two, Body: object("v2", "z", "b", "3")}, {Method: "GET", Path: one + "/z"},
		{Method: "PUT", Path: two + "/x", Body: object("v2", "x", "b", "4", "{RV}")}, {Method: "PATCH", Path: two + "/y", Type: mergePatch, Body: []byte(`{"spec":{"b":"5"}}`)},
		{Method: "PATCH", Path: two + "/x?fieldManager=one&force=true", Type: applyPatch, Body: object("v2", "x", "b", "6")}, {Method: "PATCH", Path: two + "/w?fieldManager=one", Type: applyPatch, Body: object("v2", "w", "b", "7")},
		{Method: "GET", Path: one}, {Method: "DELETE", Path: two + "/y"}, {Method: "GET", Path: one + "/y"}, gone("tabs." + group), await("tabs."+group, "NotFound"),
	}}
}
