package past_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

// kind finds a kind by its name and, if there is a dot, its group.
func kind(t *testing.T, name string) *resource.Kind {
	t.Helper()
	for _, k := range builtin.Kinds() {
		if k.GroupResource() == schema.ParseGroupResource(name) {
			return k
		}
	}
	t.Fatalf("there is no kind %s", name)
	return nil
}

// stored returns an object as an old server has stored it: the JSON, or the protobuf of its real type.
func stored(t *testing.T, k *resource.Kind, text string, asProtobuf bool) []byte {
	t.Helper()
	if !asProtobuf {
		return []byte(text)
	}
	var said struct{ APIVersion, Kind string }
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		t.Fatal(err)
	}
	gv, err := schema.ParseGroupVersion(said.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	o := k.NewForm(gv.WithKind(said.Kind))
	if o == nil {
		t.Fatalf("%s %s is not known", said.APIVersion, said.Kind)
	}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	b, err := protobuf.Marshal(said.APIVersion, said.Kind, o.(protobuf.Message))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOldVersionsAreReadWithTheirDefaults(t *testing.T) {
	for _, c := range []struct{ kind, version, is, text, want string }{
		{"poddisruptionbudgets.policy", "policy/v1beta1", "PodDisruptionBudget", `"spec": {"minAvailable": 1, "selector": {}}`,
			`"selector":{"matchExpressions":[{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"Exists"}]}`},
		{"cronjobs.batch", "batch/v1beta1", "CronJob", `"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}}`,
			`"concurrencyPolicy":"Allow"`},
		{"ingresses.networking.k8s.io", "extensions/v1beta1", "Ingress", `"spec": {"backend": {"serviceName": "s", "servicePort": 80}, "rules": [{"host": "h", "http": {"paths": [{"path": "/", "backend": {"serviceName": "t", "servicePort": "web"}}]}}]}`,
			`"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}},"rules":[{"host":"h","http":{"paths":[{"path":"/","pathType":"ImplementationSpecific","backend":{"service":{"name":"t","port":{"name":"web"}}}}]}}]}`},
		{"ingresses.networking.k8s.io", "networking.k8s.io/v1beta1", "Ingress", `"spec": {"backend": {"serviceName": "s", "servicePort": 80}}`, `"defaultBackend":{"service":{"name":"s","port":{"number":80}}}`},
		{"leases.coordination.k8s.io", "coordination.k8s.io/v1beta1", "Lease", `"spec": {"holderIdentity": "me"}`, `"holderIdentity":"me"`},
		{"rolebindings.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1beta1", "RoleBinding", `"subjects": [{"kind": "User", "name": "u"}], "roleRef": {"kind": "Role", "name": "r"}`,
			`"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}`},
		{"clusterrolebindings.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1alpha1", "ClusterRoleBinding", `"subjects": [{"kind": "User", "apiVersion": "rbac.authorization.k8s.io/v1alpha1", "name": "*"}]`,
			`"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:authenticated"}]`},
		{"endpointslices.discovery.k8s.io", "discovery.k8s.io/v1beta1", "EndpointSlice", `"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "n", "topology": {"kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z", "rack": "r"}}]`,
			`"deprecatedTopology":{"rack":"r"},"nodeName":"n","zone":"z"`},
		{"validatingwebhookconfigurations.admissionregistration.k8s.io", "admissionregistration.k8s.io/v1beta1", "ValidatingWebhookConfiguration", `"webhooks": [{"name": "w"}]`,
			`"failurePolicy":"Ignore","matchPolicy":"Exact"`},
		{"validatingadmissionpolicies.admissionregistration.k8s.io", "admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy", `"spec": {"validations": [{"expression": "true"}]}`, `"failurePolicy":"Fail"`},
		{"deployments.apps", "apps/v1beta1", "Deployment", `"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}}`, `"revisionHistoryLimit":2`},
		{"deployments.apps", "extensions/v1beta1", "Deployment", `"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}}`, `"rollingUpdate":{"maxUnavailable":1,"maxSurge":1}`},
		{"deployments.apps", "apps/v1beta2", "Deployment", `"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}`, `"rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}`},
		{"controllerrevisions.apps", "apps/v1beta1", "ControllerRevision", `"data": {"a": 1}, "revision": 3`, `"revision":3`},
		{"runtimeclasses.node.k8s.io", "node.k8s.io/v1alpha1", "RuntimeClass", `"spec": {"runtimeHandler": "h", "overhead": {"podFixed": {"cpu": "1"}}}`, `"handler":"h","overhead":{"podFixed":{"cpu":"1"}}`},
		{"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "flowcontrol.apiserver.k8s.io/v1beta2", "PriorityLevelConfiguration", `"spec": {"type": "Limited", "limited": {"assuredConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}}`, `"nominalConcurrencyShares":7`},
		{"certificatesigningrequests.certificates.k8s.io", "certificates.k8s.io/v1beta1", "CertificateSigningRequest", `"spec": {"request": "eA=="}`, `"signerName":"kubernetes.io/legacy-unknown"`},
		{"priorityclasses.scheduling.k8s.io", "scheduling.k8s.io/v1beta1", "PriorityClass", `"value": 5`, `"preemptionPolicy":"PreemptLowerPriority"`},
		{"storageclasses.storage.k8s.io", "storage.k8s.io/v1beta1", "StorageClass", `"provisioner": "p"`, `"volumeBindingMode":"Immediate"`},
		{"apiservices.apiregistration.k8s.io", "apiregistration.k8s.io/v1beta1", "APIService", `"spec": {"group": "g", "version": "v1"}`, `"group":"g"`},
	} {
		k := kind(t, c.kind)
		text := `{"apiVersion": "` + c.version + `", "kind": "` + c.is + `", "metadata": {"name": "x", "labels": {"l": "v"}}, ` + c.text + `}`
		for _, asProtobuf := range []bool{false, k.Stored == resource.StoredProtobuf} {
			value := stored(t, k, text, asProtobuf)
			o, err := k.Decode(t.Context(), value, "7")
			if err != nil {
				t.Errorf("%s %s: %v", c.version, c.is, err)
				continue
			}
			got, err := json.Marshal(o)
			if err != nil || !strings.Contains(string(got), c.want) {
				t.Errorf("%s %s is read as\n%s\nwithout %s: %v", c.version, c.is, got, c.want, err)
			}
			if a, err := k.Attributes(value); err != nil || len(a.Labels) != 2 {
				t.Errorf("%s %s has the labels %v: %v", c.version, c.is, a.Labels, err)
			}
		}
	}
}

// Any object must be readable, whatever it has and lacks.
func TestEmptyObjectsOfAllVersionsAreRead(t *testing.T) {
	n := 0
	for _, k := range builtin.Kinds() {
		for gvk := range k.FormKinds() {
			n++
			text, err := json.Marshal(map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": map[string]any{"name": "x"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Decode(t.Context(), text, "7"); err != nil {
				t.Errorf("%v: %v", gvk, err)
			}
		}
	}
	if n < 50 {
		t.Errorf("there are only %d old versions", n)
	}
}

// What old servers stored in the version that is still current lacks the defaults of later ones.
func TestObjectsOfTheCurrentVersionGetTheDefaultsThatCameLater(t *testing.T) {
	for _, c := range []struct{ kind, version, is, text, want string }{
		{"services", "v1", "Service", `"spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}`,
			`"spec":{"ports":[{"protocol":"TCP","port":80,"targetPort":80}],"clusterIP":"10.96.0.9","clusterIPs":["10.96.0.9"],"type":"ClusterIP","sessionAffinity":"None","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"}`},
		{"pods", "v1", "Pod", `"spec": {"containers": [{"name": "c", "image": "i:1"}]}`, `"enableServiceLinks":true`},
		{"persistentvolumeclaims", "v1", "PersistentVolumeClaim", `"spec": {"accessModes": ["ReadWriteOnce"]}`, `"volumeMode":"Filesystem"`},
		{"jobs.batch", "batch/v1", "Job", `"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}`, `"completionMode":"NonIndexed"`},
		{"secrets", "v1", "Secret", `"data": {}`, `"type":"Opaque"`},
		{"deployments.apps", "apps/v1", "Deployment", `"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}`, `"progressDeadlineSeconds":600`},
		{"horizontalpodautoscalers.autoscaling", "autoscaling/v2", "HorizontalPodAutoscaler", `"spec": {"maxReplicas": 3}`, `"minReplicas":1`},
	} {
		k := kind(t, c.kind)
		value := stored(t, k, `{"apiVersion": "`+c.version+`", "kind": "`+c.is+`", "metadata": {"name": "x"}, `+c.text+`}`, true)
		if _, _, raw := k.Message(value); raw {
			t.Errorf("%s: the stored bytes are sent as they are", c.is)
		}
		o, err := k.Decode(t.Context(), value, "7")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(o); err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s is read as\n%s\nwithout %s: %v", c.is, got, c.want, err)
		}
		again, err := k.Encode(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, raw := k.Message(again); !raw {
			t.Errorf("%s: an object with all defaults is decoded to be sent", c.is)
		}
		a, err := k.Attributes(value)
		if err != nil || !slices.Equal(a.Fields, k.FieldsOf(o)) && c.is != "Pod" {
			t.Errorf("%s: fields %q, want %q: %v", c.is, a.Fields, k.FieldsOf(o), err)
		}
	}
}
