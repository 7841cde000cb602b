package differences_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
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
	// settle is for how long nothing may be written until the state is taken, at the least.
	settle time.Duration
	// until is an expression that the state must match before.
	until string
}

// request is what a user sends. {NS} in its path and body is the namespace, and {web:1} in its path the name of the
// second object that begins with "web", in the order of the dump.
type request struct {
	method, resource, contentType string
	body                          string
}

// quiet is for how long nothing must be written. The loop for jobs collects what happens within a second. Where
// scenarios are played one after the other, programs have more time for each.
func (s *scenario) quiet() time.Duration {
	if s.alone {
		return 1500 * time.Millisecond
	}
	return 2500 * time.Millisecond
}

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
	"leases":       {"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease", true}, // of nodes
	"servicecidrs": {"/apis/networking.k8s.io/v1", true}, "validatingadmissionpolicies": {"/apis/admissionregistration.k8s.io/v1", true},
	"volumeattributesclasses": {"/apis/storage.k8s.io/v1", true}, "csidrivers": {"/apis/storage.k8s.io/v1", true},
	"storageversionmigrations": {"/apis/storagemigration.k8s.io/v1", true},
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

// wire returns the path of a request, and its body as JSON.
func (r *request) wire(l *look) (path string, body []byte, err error) {
	resource, rest, _ := strings.Cut(r.resource, "/")
	at, known := places[resource]
	if !known {
		return "", nil, fmt.Errorf("nobody knows where %s are", resource)
	}
	text := r.body
	if wanted, tail, is := strings.Cut(strings.TrimPrefix(rest, "{"), "}"); is && strings.HasPrefix(rest, "{") && wanted != "NS" {
		name, err := l.resolve(resource, wanted)
		if err != nil {
			return "", nil, err
		}
		text, rest = strings.ReplaceAll(text, "{"+wanted+"}", name), name+tail
	}
	path = at.prefix
	if !at.cluster {
		path += "/namespaces/" + l.ns
	}
	path += "/" + resource
	if rest != "" {
		path += "/" + strings.ReplaceAll(rest, "{NS}", l.ns)
	}
	if text == "" {
		return path, nil, nil
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "{NS}", l.ns), "{request}", signingRequest())
	text = strings.ReplaceAll(text, "{request of a node}", nodeRequest())
	text = countedFrom(time.Now(), text)
	text = uidOf.ReplaceAllStringFunc(text, func(found string) string {
		parts := uidOf.FindStringSubmatch(found)
		return l.uid(parts[1], parts[2])
	})
	body, err = yaml.YAMLToJSON([]byte(text))
	return path, body, err
}

// uidOf is the UID of an object, in the body of a request.
var uidOf = regexp.MustCompile(`\{uid (\S+) ([^\s}]+)\}`)

// signingRequest and nodeRequest ask for certificates, in base 64. Nobody has their keys.
var (
	signingRequest = sync.OnceValue(func() string { return requestOf(pkix.Name{CommonName: "somebody"}) })
	nodeRequest    = sync.OnceValue(func() string {
		return requestOf(pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}})
	})
)

func requestOf(name pkix.Name) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name}, key)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// jsonOf is a value as JSON.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a map of a scenario's own
	}
	return string(text)
}
