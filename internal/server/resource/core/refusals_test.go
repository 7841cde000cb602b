package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

// body returns an object of the group; rest follows its metadata.
func body(kind, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"o","namespace":"n"},%s}`, kind, rest)
}

func global(kind, rest string) string {
	return strings.Replace(body(kind, rest), `,"namespace":"n"`, "", 1)
}

func TestConfigurationIsRefusedInTheWordsOfKubernetes(t *testing.T) {
	const frozen = "field is immutable when `immutable` is set"
	resourcetest.Cases(t, otherKinds(), []resourcetest.Case{
		{Name: "both bags", Body: body("ConfigMap", `"data":{"a":"1"},"binaryData":{"a":"MQ=="}`), Want: []string{
			`FieldValueInvalid data[a]: Invalid value: "a": duplicate of key present in binaryData`}},
		{Name: "too big", Body: body("ConfigMap", `"data":{"a":"`+strings.Repeat("x", 1<<20+1)+`"}`), Want: []string{
			"FieldValueTooLong []: Too long: may not be more than 1048576 bytes"}},
		{Name: "frozen map", Body: body("ConfigMap", `"immutable":true,"data":{"a":"1"}`), Change: `{"immutable":false,"data":{"a":"2"}}`, Want: []string{
			"FieldValueForbidden immutable: Forbidden: " + frozen, "FieldValueForbidden data: Forbidden: " + frozen}},
		{Name: "frozen secret", Body: body("Secret", `"immutable":true,"data":{"a":"MQ=="}`), Change: `{"stringData":{"a":"2"}}`, Want: []string{
			"FieldValueForbidden data: Forbidden: " + frozen}},
		{Name: "secret type", Body: body("Secret", `"data":{"a":"MQ=="}`), Change: `{"type":"other"}`, Want: []string{
			`FieldValueInvalid type: Invalid value: "other": field is immutable`}},
		{Name: "docker config", Body: body("Secret", `"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"eA=="}`), Want: []string{
			`FieldValueInvalid data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value`}},
		{Name: "ssh key", Body: body("Secret", `"type":"kubernetes.io/ssh-auth"`), Want: []string{"FieldValueRequired data[ssh-privatekey]: Required value"}},
		{Name: "one of user and password is enough", Body: body("Secret", `"type":"kubernetes.io/basic-auth","stringData":{"username":"u"}`)},
	})
}

func TestQuotasAndLimitsAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, otherKinds(), []resourcetest.Case{
		{Name: "negative", Body: body("ResourceQuota", `"spec":{"hard":{"pods":"-1"}}`), Want: []string{
			`FieldValueInvalid spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0`}},
		{Name: "half a pod", Body: body("ResourceQuota", `"spec":{"hard":{"pods":"500m"}}`), Want: []string{
			`FieldValueInvalid spec.hard[pods]: Invalid value: "500m": must be an integer`}},
		{Name: "unknown resource", Body: body("ResourceQuota", `"spec":{"hard":{"speed":"1"}}`), Want: []string{
			`FieldValueInvalid spec.hard[speed]: Invalid value: "speed": must be a standard resource type or fully qualified`,
			`FieldValueInvalid spec.hard[speed]: Invalid value: "speed": must be a standard resource for quota`}},
		{Name: "counted objects", Body: body("ResourceQuota", `"spec":{"hard":{"count/jobs.batch":"3"}}`)},
		{Name: "scope of another resource", Body: body("ResourceQuota", `"spec":{"hard":{"cpu":"1"},"scopes":["BestEffort"]}`), Want: []string{
			`FieldValueInvalid spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`}},
		{Name: "scopes that exclude each other", Body: body("ResourceQuota", `"spec":{"hard":{"pods":"1"},"scopes":["BestEffort","NotBestEffort"]}`), Want: []string{
			`FieldValueInvalid spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes`}},
		{Name: "scopes change", Body: body("ResourceQuota", `"spec":{"hard":{"pods":"1"},"scopes":["BestEffort"]}`), Change: `{"spec":{"scopes":["NotBestEffort"]}}`, Want: []string{
			`FieldValueInvalid spec.scopes: Invalid value: ["NotBestEffort"]: field is immutable`}},
		{Name: "scope selector", Body: body("ResourceQuota", `"spec":{"hard":{"pods":"1"},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In"}]}}`), Want: []string{
			"FieldValueRequired spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"}},
		{Name: "minimum over maximum", Body: body("LimitRange", `"spec":{"limits":[{"type":"Pod","min":{"cpu":"2"},"max":{"cpu":"1"}}]}`), Want: []string{
			`FieldValueInvalid spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`}},
		{Name: "default of a pod", Body: body("LimitRange", `"spec":{"limits":[{"type":"Pod","default":{"cpu":"1"}}]}`), Want: []string{
			"FieldValueForbidden spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"}},
		{Name: "limit type", Body: body("LimitRange", `"spec":{"limits":[{"type":"Thing"},{"type":"Pod"},{"type":"Pod"}]}`), Want: []string{
			`FieldValueInvalid spec.limits[0].type: Invalid value: "Thing": must be a standard limit type or fully qualified`,
			`FieldValueDuplicate spec.limits[2].type: Duplicate value: "Pod"`}},
		{Name: "default over maximum", Body: body("LimitRange", `"spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"default":{"cpu":"2"}}]}`), Want: []string{
			`FieldValueInvalid spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than max value 1`,
			`FieldValueInvalid spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1`}},
		{Name: "claims without storage", Body: body("LimitRange", `"spec":{"limits":[{"type":"PersistentVolumeClaim"}]}`), Want: []string{
			"FieldValueRequired spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"}},
	})
}

func TestVolumesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	const good = `"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"]`
	claim := body("PersistentVolumeClaim", `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)
	resourcetest.Cases(t, otherKinds(), []resourcetest.Case{
		{Name: "nothing", Body: global("PersistentVolume", `"spec":{}`), Want: []string{
			"FieldValueRequired spec.accessModes: Required value", "FieldValueRequired spec.capacity: Required value",
			`FieldValueNotSupported spec.capacity: Unsupported value: null: supported values: "storage"`,
			"FieldValueRequired spec: Required value: must specify a volume type"}},
		{Name: "two sources", Body: global("PersistentVolume", `"spec":{`+good+`,"hostPath":{"path":"/x"},"nfs":{"server":"s","path":"/"}}`), Want: []string{
			"FieldValueForbidden spec.nfs: Forbidden: may not specify more than 1 volume type"}},
		{Name: "local anywhere", Body: global("PersistentVolume", `"spec":{`+good+`,"local":{"path":"/x"}}`), Want: []string{
			"FieldValueRequired spec.nodeAffinity: Required value: Local volume requires node affinity"}},
		{Name: "backwards path", Body: global("PersistentVolume", `"spec":{`+good+`,"hostPath":{"path":"/a/../b"}}`), Want: []string{
			`FieldValueInvalid spec.hostPath.path: Invalid value: "/a/../b": must not contain '..'`}},
		{Name: "recycled root", Body: global("PersistentVolume", `"spec":{`+good+`,"hostPath":{"path":"/"},"persistentVolumeReclaimPolicy":"Recycle"}`), Want: []string{
			"FieldValueForbidden spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"}},
		{Name: "volume mode changes", Body: global("PersistentVolume", `"spec":{`+good+`,"hostPath":{"path":"/x"}}`), Change: `{"spec":{"volumeMode":"Block"}}`, Want: []string{
			`FieldValueInvalid volumeMode: Invalid value: "Block": field is immutable`}},
		{Name: "modes that exclude each other", Body: body("PersistentVolumeClaim", `"spec":{"accessModes":["ReadWriteOncePod","ReadOnlyMany"],"resources":{"requests":{"storage":"1Gi"}}}`), Want: []string{
			"FieldValueForbidden spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"}},
		{Name: "unknown mode", Body: body("PersistentVolumeClaim", `"spec":{"accessModes":["Sometimes"],"resources":{"requests":{"storage":"1Gi"}}}`), Want: []string{
			`FieldValueNotSupported spec.accessModes: Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`}},
		{Name: "bound by name", Body: claim, Change: `{"spec":{"volumeName":"v"}}`},
		{Name: "class comes to be known", Body: claim, Change: `{"spec":{"storageClassName":"c"}}`},
	})
}

func TestClaimSpecIsImmutable(t *testing.T) {
	claim := body("PersistentVolumeClaim", `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)
	kind := PersistentVolumeClaims()
	old := resourcetest.Made(t, otherKinds(), claim)
	changed := resourcetest.Changed(t, kind.Faces[0], old, `{"spec":{"accessModes":["ReadOnlyMany"]}}`)
	got := resourcetest.Causes(resourcetest.Update(kind, kind.Main, changed, old))
	const want = "FieldValueForbidden spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
	if len(got) != 1 || !strings.HasPrefix(got[0], want) || !strings.Contains(got[0], `+  "ReadOnlyMany"`) {
		t.Errorf("got %q", got)
	}
}

func TestBoundClaimsMayGrowButNotShrinkBelowTheVolume(t *testing.T) {
	kind := PersistentVolumeClaims()
	old := resourcetest.Made(t, otherKinds(), body("PersistentVolumeClaim", `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}`)).(*corev1.PersistentVolumeClaim)
	old.Status.Phase = corev1.ClaimBound
	old.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: old.Spec.Resources.Requests[corev1.ResourceStorage]}
	for size, want := range map[string][]string{
		"3Gi": nil,
		"1Gi": {"FieldValueForbidden spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"},
	} {
		changed := resourcetest.Changed(t, kind.Faces[0], old, `{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
		if got := resourcetest.Causes(resourcetest.Update(kind, kind.Main, changed, old)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", size, got, want)
		}
	}
}

func TestEndpointsAndNamespacesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	namespace := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`
	resourcetest.Cases(t, otherKinds(), []resourcetest.Case{
		{Name: "no addresses", Body: body("Endpoints", `"subsets":[{"ports":[{"port":80}]}]`), Want: []string{
			"FieldValueRequired subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"}},
		{Name: "bad address", Body: body("Endpoints", `"subsets":[{"addresses":[{"ip":"1.2.3"},{"ip":"169.254.0.1"}],"ports":[{"port":80}]}]`), Want: []string{
			`FieldValueInvalid subsets[0].addresses[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			`FieldValueInvalid subsets[0].addresses[0].ip: Invalid value: "1.2.3": must be a valid IP address`,
			`FieldValueInvalid subsets[0].addresses[1].ip: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`}},
		{Name: "ports without names", Body: body("Endpoints", `"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"port":80},{"port":0,"name":"b"}]}]`), Want: []string{
			"FieldValueRequired subsets[0].ports[0].name: Required value",
			"FieldValueInvalid subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
		{Name: "phase of a living namespace", Body: namespace, View: "status", Change: `{"status":{"phase":"Terminating"}}`, Want: []string{
			"FieldValueInvalid status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"}},
		{Name: "finalizer without a domain", Body: namespace, View: "finalize", Change: `{"spec":{"finalizers":["mine"]}}`, Want: []string{
			`FieldValueInvalid spec.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified`}},
		{Name: "finalizers are not for the main path", Body: namespace, Change: `{"spec":{"finalizers":["mine"]}}`},
	})
}

func TestDeletedNamespaceTerminatesAndStaysUntilFinalized(t *testing.T) {
	kind := Namespaces()
	ns := resourcetest.Made(t, otherKinds(), `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`).(*corev1.Namespace)
	if !kind.Held(ns) || ns.Labels[corev1.LabelMetadataName] != "n" || ns.Status.Phase != corev1.NamespaceActive {
		t.Errorf("not held, labelled and active: %+v", ns)
	}
	ns.DeletionGracePeriodSeconds = new(int64)
	kind.PrepareDelete(ns)
	if ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionGracePeriodSeconds != nil {
		t.Errorf("phase %s, grace %v after a delete", ns.Status.Phase, ns.DeletionGracePeriodSeconds)
	}
	done := ns.DeepCopy()
	done.Spec.Finalizers = nil
	kind.Views["finalize"].PrepareUpdate(context.Background(), done, ns)
	if kind.Held(done) {
		t.Error("held after its finalizers were removed")
	}
}

func TestEventsAreRefusedByTheRulesOfTheGroupThatIsSpoken(t *testing.T) {
	newer := func(rest string) string {
		return `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e","namespace":"n"},"regarding":{"namespace":"n"}` + rest + `}`
	}
	const complete = `,"eventTime":"2026-01-02T03:04:05.000000Z","reportingController":"a/b","reportingInstance":"i","action":"a","reason":"r","type":"Normal"`
	resourcetest.Cases(t, otherKinds(), []resourcetest.Case{
		{Name: "newer, complete", Body: newer(complete)},
		{Name: "newer, bare", Body: newer(""), Want: []string{
			"FieldValueRequired eventTime: Required value", `FieldValueInvalid type: Invalid value: "": has invalid value: `}},
		{Name: "newer with old fields", Body: newer(complete + `,"deprecatedCount":1,"deprecatedSource":{"host":"h"}`), Want: []string{
			`FieldValueInvalid count: Invalid value: "": needs to be unset`, `FieldValueInvalid source: Invalid value: "": needs to be unset`}},
		{Name: "newer, series of one", Body: newer(complete + `,"series":{"count":1,"lastObservedTime":null}`), Want: []string{
			`FieldValueInvalid series.count: Invalid value: "": should be at least 2`, "FieldValueRequired series.lastObservedTime: Required value"}},
		{Name: "older, elsewhere", Body: body("Event", `"involvedObject":{"namespace":"m"}`), Want: []string{
			`FieldValueInvalid involvedObject.namespace: Invalid value: "m": does not match event.namespace`}},
		{Name: "older with a time", Body: body("Event", `"involvedObject":{"namespace":"n"},"eventTime":"2026-01-02T03:04:05.000000Z"`), Want: []string{
			"FieldValueRequired reportingComponent: Required value",
			`FieldValueInvalid reportingComponent: Invalid value: "": name part must be non-empty`,
			`FieldValueInvalid reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"FieldValueRequired reportingInstance: Required value", "FieldValueRequired action: Required value", "FieldValueRequired reason: Required value"}},
	})
}

func TestEventReadsTheSameThroughBothGroups(t *testing.T) {
	kind := Events()
	face := kind.Faces[1]
	e := &corev1.Event{Reason: "r", Message: "m", Count: 3, ReportingController: "c", InvolvedObject: corev1.ObjectReference{Name: "p"},
		Source: corev1.EventSource{Component: "s"}, Series: &corev1.EventSeries{Count: 2}}
	back := face.To(face.From(e)).(*corev1.Event)
	back.TypeMeta = e.TypeMeta
	if fmt.Sprint(back) != fmt.Sprint(e) {
		t.Errorf("got %v, want %v", back, e)
	}
	for label, of := range face.Fields {
		if !slices.ContainsFunc(kind.Fields, func(f resource.Field) bool { return f.Label == of }) {
			t.Errorf("%s means %s, which is no field", label, of)
		}
	}
}

func TestWarningsAreThoseOfKubernetes(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{serviceBody(`"clusterIP":"None","sessionAffinity":"ClientIP",` + port80), "spec.SessionAffinity is ignored for headless services"},
		{strings.Replace(body("ServiceAccount", `"secrets":[]`), `"name":"o"`, `"name":"o","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}`, 1),
			"metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"},
		{body("Secret", `"type":"kubernetes.io/tls","data":{"tls.crt":"","tls.key":""}`), "tls: failed to find any PEM data in certificate input"},
		{body("PersistentVolumeClaim", `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1500m"}}}`),
			`spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`},
	} {
		if got := resourcetest.Warned(t, otherKinds(), c.body); !slices.Equal(got, []string{c.want}) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
