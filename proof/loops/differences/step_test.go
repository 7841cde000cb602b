package differences_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

type node = map[string]any

// scenario is a list of steps in a namespace of its own.
type scenario struct {
	name  string
	steps []step
	// alone says that the scenario makes nodes, and is played where there are no others. No kubelet runs its pods.
	alone bool
}

// step is a request of a user, or several, and a time to wait.
type step struct {
	requests []request
	// settle is for how long nothing may be written until the state is taken: quiet if it is not set.
	settle time.Duration
	// until is an expression that the state must match before.
	until string
}

// request is what a user sends. {NS} in its path and body is the namespace, and {web:1} in its path the name of the second object that begins with
// "web", in the order of the dump.
type request struct {
	method, resource, query, contentType string
	body                                 string
}

const quiet = 2500 * time.Millisecond

// place says where a resource is served.
type place struct {
	prefix  string
	cluster bool
}

var places = map[string]place{
	"pods": {"/api/v1", false}, "services": {"/api/v1", false}, "endpoints": {"/api/v1", false}, "configmaps": {"/api/v1", false}, "secrets": {"/api/v1", false},
	"serviceaccounts": {"/api/v1", false}, "persistentvolumeclaims": {"/api/v1", false}, "resourcequotas": {"/api/v1", false}, "limitranges": {"/api/v1", false},
	"replicationcontrollers": {"/api/v1", false}, "events": {"/api/v1", false},
	"namespaces": {"/api/v1", true}, "nodes": {"/api/v1", true}, "persistentvolumes": {"/api/v1", true},
	"deployments": {"/apis/apps/v1", false}, "replicasets": {"/apis/apps/v1", false}, "statefulsets": {"/apis/apps/v1", false}, "daemonsets": {"/apis/apps/v1", false},
	"controllerrevisions": {"/apis/apps/v1", false},
	"jobs":                {"/apis/batch/v1", false}, "cronjobs": {"/apis/batch/v1", false},
	"poddisruptionbudgets":     {"/apis/policy/v1", false},
	"horizontalpodautoscalers": {"/apis/autoscaling/v2", false},
	"endpointslices":           {"/apis/discovery.k8s.io/v1", false},
	"priorityclasses":          {"/apis/scheduling.k8s.io/v1", true},
	"storageclasses":           {"/apis/storage.k8s.io/v1", true},
	"resourceclaims":           {"/apis/resource.k8s.io/v1", false}, "resourceclaimtemplates": {"/apis/resource.k8s.io/v1", false},
	"resourceslices": {"/apis/resource.k8s.io/v1", true}, "deviceclasses": {"/apis/resource.k8s.io/v1", true},
	"certificatesigningrequests": {"/apis/certificates.k8s.io/v1", true},
	"roles":                      {"/apis/rbac.authorization.k8s.io/v1", false}, "rolebindings": {"/apis/rbac.authorization.k8s.io/v1", false},
	"clusterroles": {"/apis/rbac.authorization.k8s.io/v1", true},
}

// do makes a step of requests.
func do(requests ...request) step { return step{requests: requests} }

// settling waits longer, or until something is there.
func (s step) settling(d time.Duration) step { s.settle = d; return s }
func (s step) awaiting(expression string) step {
	s.until = expression
	return s
}

// object is an object in YAML, with a name.
func object(name, text string) string { return "metadata: {name: " + name + "}\n" + text }

// create creates an object, of which the text says all but the name.
func create(resource, name, text string) request {
	return request{method: http.MethodPost, resource: resource, body: object(name, text)}
}

// createFull creates an object of which the text says all.
func createFull(resource, text string) request {
	return request{method: http.MethodPost, resource: resource, body: text}
}

// patch merges; patchStatus does that with the status, as a kubelet does.
func patch(path, text string) request {
	return request{method: http.MethodPatch, resource: path, contentType: "application/merge-patch+json", body: text}
}

func strategic(path, text string) request {
	return request{method: http.MethodPatch, resource: path, contentType: "application/strategic-merge-patch+json", body: text}
}

func patchStatus(path, text string) request {
	return strategic(path+"/status", "status: "+text)
}

// remove deletes, with options.
func remove(path, options string) request {
	return request{method: http.MethodDelete, resource: path, body: options}
}

func evict(pod string) request {
	return request{method: http.MethodPost, resource: "pods/" + pod + "/eviction", body: "{apiVersion: policy/v1, kind: Eviction, metadata: {name: '" + pod + "'}}"}
}

// path returns the path of a request, and its body as JSON. resolve finds the name that {prefix:number} means.
func (r *request) wire(ns string, resolve func(resource, wanted string) (string, error)) (path string, body []byte, err error) {
	resource, rest, _ := strings.Cut(r.resource, "/")
	at, known := places[resource]
	if !known {
		return "", nil, fmt.Errorf("nobody knows where %s are", resource)
	}
	text := r.body
	if wanted, tail, is := strings.Cut(strings.TrimPrefix(rest, "{"), "}"); is && strings.HasPrefix(rest, "{") && wanted != "NS" {
		name, err := resolve(resource, wanted)
		if err != nil {
			return "", nil, err
		}
		text, rest = strings.ReplaceAll(text, "{"+wanted+"}", name), name+tail
	}
	path = at.prefix
	if !at.cluster {
		path += "/namespaces/" + ns
	}
	path += "/" + resource
	if rest != "" {
		path += "/" + strings.ReplaceAll(rest, "{NS}", ns)
	}
	if r.query != "" {
		path += "?" + r.query
	}
	if text == "" {
		return path, nil, nil
	}
	body, err = yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "{NS}", ns)))
	return path, body, err
}

// indented is YAML that stands below another.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a map of a scenario's own
	}
	return string(text)
}
