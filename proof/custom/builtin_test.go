package custom_test

import (
	"encoding/json"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/proof/internal/etcdtest"
)

// definitionOf returns a definition in a group with names as in YAML, which anybody who may create definitions can
// approve.
func definitionOf(t *testing.T, plural, group, version, scope, names string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, strings.NewReplacer("PLURAL", plural, "GROUP", group, "VERSION", version, "SCOPE", scope, "NAMES", names).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: PLURAL.GROUP
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/kubernetes/pull/1"}
spec:
  group: GROUP
  scope: SCOPE
  names: {plural: PLURAL, NAMES}
  versions:
  - {name: VERSION, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`))
}

// conditionOf returns a condition as status, reason and message.
func conditionOf(u *unstructured.Unstructured, kind string) string {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == kind {
			return c["status"].(string) + " " + c["reason"].(string) + ": " + c["message"].(string)
		}
	}
	return ""
}

// builtIn is an object of a built-in kind that somebody might want to replace.
type builtIn struct {
	at                         schema.GroupVersionResource
	scope, kind, object, where string
}

var builtIns = []builtIn{
	{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, "Namespaced", "NetworkPolicy", `{spec: {podSelector: {}}}`, "default"},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, "Namespaced", "Role", `{rules: []}`, "default"},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}, "Cluster", "ValidatingAdmissionPolicy",
		`{spec: {failurePolicy: Fail, matchConstraints: {resourceRules: [{apiGroups: [x], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, validations: [{expression: "true"}]}}`, ""},
}

func (b builtIn) of(d dynamic.Interface) dynamic.ResourceInterface {
	if b.where == "" {
		return d.Resource(b.at)
	}
	return d.Resource(b.at).Namespace(b.where)
}

func (b builtIn) create(t *testing.T, d dynamic.Interface, name string) {
	t.Helper()
	o := parse(t, b.object)
	o.SetGroupVersionKind(b.at.GroupVersion().WithKind(b.kind))
	o.SetName(name)
	must(b.of(d).Create(t.Context(), o, metav1.CreateOptions{}))(t)
}

// works reports that the built-in kind has its objects, takes more, and refuses what its own validation refuses.
func (b builtIn) works(t *testing.T, d dynamic.Interface, present, next string) {
	t.Helper()
	if _, err := b.of(d).Get(t.Context(), present, metav1.GetOptions{}); err != nil {
		t.Errorf("%v: an object is gone: %v", b.at, err)
	}
	b.create(t, d, next)
	if list := must(b.of(d).List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) < 2 || list.GetKind() != b.kind+"List" {
		t.Errorf("%v: listed %d as %s", b.at, len(list.Items), list.GetKind())
	}
	o := &unstructured.Unstructured{Object: map[string]any{"unknownField": "x"}}
	o.SetGroupVersionKind(b.at.GroupVersion().WithKind(b.kind))
	o.SetName("odd")
	if _, err := b.of(d).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: "Strict"}); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
		t.Errorf("%v: an object of a custom kind was taken: %v", b.at, err)
	}
}

func TestADefinitionDoesNotReplaceABuiltInKind(t *testing.T) {
	d := start(t)
	for _, b := range builtIns {
		for _, version := range []string{"v1", "v9"} {
			if version == "v1" {
				b.create(t, d, "before")
			}
			w := must(b.of(d).Watch(t.Context(), metav1.ListOptions{}))(t)
			def := definitionOf(t, b.at.Resource, b.at.Group, version, b.scope, "kind: "+b.kind)
			made := must(d.Resource(definitions).Create(t.Context(), def, metav1.CreateOptions{}))(t)
			refused := await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "NamesAccepted") != "" })
			if got, want := conditionOf(refused, "NamesAccepted"), `False ListKindConflict: "`+b.kind+`List" is already in use`; got != want {
				t.Errorf("%v: NamesAccepted is %s, want %s", b.at, got, want)
			}
			if got, want := conditionOf(refused, "Established"), "False NotAccepted: not all names are accepted"; got != want {
				t.Errorf("%v: Established is %s, want %s", b.at, got, want)
			}
			if got := at(refused, "status", "acceptedNames", "plural"); got != "" {
				t.Errorf("%v: the plural %q was accepted", b.at, got)
			}
			other := b.at.GroupResource().WithVersion("v9")
			if _, err := d.Resource(other).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%v is served: %v", other, err)
			}
			b.works(t, d, "before", "after-"+version)
			for e := range w.ResultChan() {
				if e.Type == "ERROR" {
					t.Fatalf("%v: a watch has ended: %v", b.at, e.Object)
				}
				if e.Object.(*unstructured.Unstructured).GetName() == "after-"+version {
					break
				}
			}
			w.Stop()
			must("", d.Resource(definitions).Delete(t.Context(), def.GetName(), metav1.DeleteOptions{}))(t)
			await(t, d, refused, func(*unstructured.Unstructured) bool { return false })
			b.works(t, d, "before", "later-"+version)
		}
	}
}

func TestEachNameOfABuiltInKindIsTaken(t *testing.T) {
	d := start(t)
	for names, want := range map[string]string{
		"kind: Widget, singular: networkpolicy":            `False SingularConflict: "networkpolicy" is already in use`,
		"kind: Widget, singular: netpol":                   `False SingularConflict: "netpol" is already in use`,
		"kind: Widget, shortNames: [w, netpol, ingress]":   `False ShortNamesConflict: ["netpol" is already in use, "ingress" is already in use]`,
		"kind: NetworkPolicy, listKind: WidgetList":        `False KindConflict: "NetworkPolicy" is already in use`,
		"kind: Widget, listKind: IngressList":              `False ListKindConflict: "IngressList" is already in use`,
		"kind: Widget, shortNames: [w], categories: [all]": "True NoConflicts: no conflicts found",
	} {
		def := definitionOf(t, "widgets", "networking.k8s.io", "v1", "Namespaced", names)
		made := must(d.Resource(definitions).Create(t.Context(), def, metav1.CreateOptions{}))(t)
		now := await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "NamesAccepted") != "" })
		if got := conditionOf(now, "NamesAccepted"); got != want {
			t.Errorf("{%s}: NamesAccepted is %s, want %s", names, got, want)
		}
		if established, accepted := condition(now, "Established"), condition(now, "NamesAccepted"); established != accepted {
			t.Errorf("{%s}: Established is %s", names, established)
		}
		must("", d.Resource(definitions).Delete(t.Context(), def.GetName(), metav1.DeleteOptions{}))(t)
		await(t, d, now, func(*unstructured.Unstructured) bool { return false })
	}
	made := must(d.Resource(definitions).Create(t.Context(), definitionOf(t, "events", "events.k8s.io", "v9", "Namespaced", "kind: Happening"), metav1.CreateOptions{}))(t)
	now := await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "NamesAccepted") != "" })
	if got, want := conditionOf(now, "NamesAccepted"), `False PluralConflict: "events" is already in use`; got != want {
		t.Errorf("the second group of events: NamesAccepted is %s, want %s", got, want)
	}
}

func TestADefinitionWithOtherNamesIsServedBesideTheBuiltInKindsOfItsGroup(t *testing.T) {
	c := millracetest.Start(t, millrace.Options{Nodes: -1, Controllers: []string{}})
	d := must(dynamic.NewForConfig(c.Config()))(t)
	disco := must(discovery.NewDiscoveryClientForConfig(c.Config()))(t)
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	before := must(d.Resource(services).Get(t.Context(), "v1.networking.k8s.io", metav1.GetOptions{}))(t)
	made := must(d.Resource(definitions).Create(t.Context(), definitionOf(t, "widgets", "networking.k8s.io", "v1", "Namespaced", "kind: Widget, shortNames: [wi]"), metav1.CreateOptions{}))(t)
	await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "Established") == "True" })
	widgets := d.Resource(schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "widgets"}).Namespace("default")
	o := parse(t, `{apiVersion: networking.k8s.io/v1, kind: Widget, metadata: {name: a}, spec: {any: thing}}`)
	must(widgets.Create(t.Context(), o, metav1.CreateOptions{}))(t)
	builtIns[0].create(t, d, "one")
	builtIns[0].works(t, d, "one", "two")
	names := map[string]bool{}
	for _, r := range must(disco.ServerResourcesForGroupVersion("networking.k8s.io/v1"))(t).APIResources {
		names[r.Name] = true
	}
	if !names["widgets"] || !names["networkpolicies"] || !names["ingresses/status"] {
		t.Errorf("discovery shows %v", names)
	}
	text := string(must(disco.RESTClient().Get().AbsPath("/openapi/v3/apis/networking.k8s.io/v1").DoRaw(t.Context()))(t))
	if !strings.Contains(text, `.Widget"`) || !strings.Contains(text, `io.k8s.api.networking.v1.NetworkPolicy"`) {
		t.Error("the group's OpenAPI document shows only a part of its kinds")
	}
	must("", d.Resource(definitions).Delete(t.Context(), "widgets.networking.k8s.io", metav1.DeleteOptions{}))(t)
	await(t, d, made, func(*unstructured.Unstructured) bool { return false })
	if _, err := widgets.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("widgets are still served: %v", err)
	}
	builtIns[0].works(t, d, "one", "three")
	if after := must(d.Resource(services).Get(t.Context(), "v1.networking.k8s.io", metav1.GetOptions{}))(t); after.GetUID() != before.GetUID() {
		t.Error("the group's APIService was made again")
	}
}

// An older program may have stored such a definition as Established.
func TestTheServerStartsWithAStoredDefinitionOfABuiltInKind(t *testing.T) {
	etcd := etcdtest.Start(t)
	first, end := server(t, etcd)
	for _, b := range builtIns {
		b.create(t, first, "before")
	}
	end()
	client := must(clientv3.New(clientv3.Config{Endpoints: []string{etcd}}))(t)
	defer client.Close()
	for _, b := range builtIns {
		def := definitionOf(t, b.at.Resource, b.at.Group, "v1", b.scope, "kind: "+b.kind+", singular: "+strings.ToLower(b.kind)+", listKind: "+b.kind+"List")
		def.SetUID("00000000-0000-0000-0000-00000000000" + "1")
		def.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
		names := at(def, "spec", "names")
		def.Object["status"] = map[string]any{"acceptedNames": names, "storedVersions": []any{"v1"}, "conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": "2026-01-01T00:00:00Z"},
			map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": "2026-01-01T00:00:00Z"},
		}}
		value := must(json.Marshal(def.Object))(t)
		must(client.Put(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/"+def.GetName(), string(value)))(t)
	}
	for _, round := range []string{"one", "two"} {
		d, end := server(t, etcd)
		for _, b := range builtIns {
			b.works(t, d, "before", "after-"+round)
			now := must(d.Resource(definitions).Get(t.Context(), b.at.GroupResource().String(), metav1.GetOptions{}))(t)
			now = awaitNow(t, d, now, func(u *unstructured.Unstructured) bool { return condition(u, "NamesAccepted") == "False" })
			if condition(now, "Established") != "False" || at(now, "status", "acceptedNames", "plural") != "" {
				t.Errorf("%v: the status is %v", b.at, at(now, "status"))
			}
		}
		end()
	}
	d, _ := server(t, etcd)
	for _, b := range builtIns {
		must("", d.Resource(definitions).Delete(t.Context(), b.at.GroupResource().String(), metav1.DeleteOptions{}))(t)
		b.works(t, d, "before", "after-all")
	}
}

// awaitNow is await for a definition that may be in order already.
func awaitNow(t *testing.T, d dynamic.Interface, u *unstructured.Unstructured, holds func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	if holds(u) {
		return u
	}
	return await(t, d, u, holds)
}

func TestAStatusThatSomebodyWroteTakesNoKindsPlace(t *testing.T) {
	d := start(t)
	builtIns[0].create(t, d, "before")
	define(t, d, definition)
	must(d.Resource(tabs).Namespace("default").Create(t.Context(), tab("a", "{color: red}"), metav1.CreateOptions{}))(t)
	for def, stolen := range map[*unstructured.Unstructured]map[string]any{
		definitionOf(t, "widgets", "networking.k8s.io", "v1", "Namespaced", "kind: Widget"): {
			"plural": "networkpolicies", "singular": "networkpolicy", "kind": "NetworkPolicy", "listKind": "NetworkPolicyList"},
		definitionOf(t, "knobs", "example.com", "v1", "Namespaced", "kind: Knob"): {"plural": "tabs", "singular": "tab", "kind": "Tab", "listKind": "TabList"},
	} {
		made := must(d.Resource(definitions).Create(t.Context(), def, metav1.CreateOptions{}))(t)
		now := await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "Established") == "True" })
		now.Object["status"].(map[string]any)["acceptedNames"] = stolen
		wrote := must(d.Resource(definitions).UpdateStatus(t.Context(), now, metav1.UpdateOptions{}))(t)
		plural := at(def, "spec", "names", "plural")
		await(t, d, wrote, func(u *unstructured.Unstructured) bool { return at(u, "status", "acceptedNames", "plural") == plural })
	}
	builtIns[0].works(t, d, "before", "after")
	if _, err := d.Resource(tabs).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
