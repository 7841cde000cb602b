package node_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
)

func TestANodeReadsWhatItsPodsUseAndNothingElse(t *testing.T) {
	w := newWorld(t, nil)
	p := pod("p", "a", secretVolume("volume"), claimVolume("disk"))
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "example/image", EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "envfrom"}}}}}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}, Key: "k"}}}}
	w.must(w.create("", ofPods, p))
	for _, test := range []struct {
		verb, resource, name string
		also                 func(*auth.Attributes)
	}{
		{"get", "secrets", "volume", nil}, {"list", "secrets", "pull", nil}, {"watch", "secrets", "envfrom", nil},
		{"get", "configmaps", "env", nil}, {"get", "persistentvolumeclaims", "disk", nil}, {"get", "pods", "p", nil}, {"watch", "pods", "p", nil},
		{"get", "serviceaccounts", "robot", nil},
		{"create", "serviceaccounts", "robot", func(a *auth.Attributes) { a.Subresource = "token" }},
		{"patch", "persistentvolumeclaims", "disk", func(a *auth.Attributes) { a.Subresource = "status" }},
	} {
		also := func(a *auth.Attributes) {
			if test.also != nil {
				test.also(a)
			}
		}
		if v := w.verdict("a", test.verb, test.resource, "n", test.name, also); !v.Allowed() {
			t.Errorf("%s %s %s of the node's own pod: %s %v", test.verb, test.resource, test.name, v.Why(), v.Err)
		}
		if w.may("b", test.verb, test.resource, "n", test.name, also) {
			t.Errorf("another node may %s %s %s", test.verb, test.resource, test.name)
		}
		if w.may("a", test.verb, test.resource, "other", test.name, also) {
			t.Errorf("%s %s %s in another namespace is allowed", test.verb, test.resource, test.name)
		}
		if w.may("a", "delete", test.resource, "n", test.name, also) && test.resource != "pods" {
			t.Errorf("deleting %s %s is allowed", test.resource, test.name)
		}
	}
	if why := w.verdict("b", "get", "secrets", "n", "volume").Why(); why != "no relationship found between node 'b' and this object" {
		t.Errorf("%q", why)
	}
	if why := w.verdict("a", "list", "secrets", "n", "").Why(); why != "No Object name found" {
		t.Errorf("%q", why)
	}
}

func TestAPermissionComesAndGoesWithThePod(t *testing.T) {
	w := newWorld(t, nil)
	if w.may("a", "get", "secrets", "n", "s") {
		t.Error("allowed before there is a pod")
	}
	w.must(w.create("", ofPods, pod("p", "a", secretVolume("s"))))
	if !w.may("a", "get", "secrets", "n", "s") {
		t.Error("a pod that has just come gives nothing")
	}
	zero := int64(0)
	_, err := w.storage(ofPods).Delete(w.ctx, "n", "p", metav1.DeleteOptions{GracePeriodSeconds: &zero}, registry.WriteOptions{})
	w.must(err)
	if err := w.reg.Cache.WaitFor(w.ctx, w.storage(ofPods).Wrote()); err != nil {
		t.Fatal(err)
	}
	if w.may("a", "get", "secrets", "n", "s") {
		t.Error("a pod that has gone still gives its secret")
	}
}

func TestWhatAnotherServerHasBoundIsNotRefused(t *testing.T) {
	w := newWorld(t, nil)
	other := newWorld(t, w.store)
	for i := range 50 {
		name := fmt.Sprintf("s%d", i)
		w.must(w.create("", ofPods, pod(name, "a", secretVolume(name))))
		if !other.may("a", "get", "secrets", "n", name) {
			t.Fatalf("pod %d is not known to the other server", i)
		}
	}
}

// The window of history is small, so that the place of the index is lost.
func TestTheIndexBeginsAnewWhenItsPlaceIsLost(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create("", ofPods, pod("p", "a", secretVolume("s"))))
	if !w.may("a", "get", "secrets", "n", "s") {
		t.Fatal("not allowed")
	}
	for i := range 1000 {
		w.must(w.create("", ofPods, pod(fmt.Sprintf("q%d", i), "b", secretVolume("of-b"))))
	}
	if !w.may("a", "get", "secrets", "n", "s") || !w.may("b", "get", "secrets", "n", "of-b") || w.may("a", "get", "secrets", "n", "of-b") {
		t.Error("the pods of the nodes are not known any more")
	}
}

func TestAVolumeOfAPodsClaimGivesItsSecrets(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create("", ofPods, pod("p", "a", claimVolume("disk"))))
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	spec := corev1.PersistentVolumeClaimSpec{VolumeName: "pv", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}}}
	w.must(w.create("", claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "disk"}, Spec: spec}))
	volume := func(name, of string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}, AccessModes: spec.AccessModes, ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: of},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "v",
				NodeStageSecretRef:         &corev1.SecretReference{Namespace: "storage", Name: "stage"},
				ControllerPublishSecretRef: &corev1.SecretReference{Namespace: "storage", Name: "controller"}}}}}
	}
	ofVolumes := schema.GroupResource{Resource: "persistentvolumes"}
	w.must(w.create("", ofVolumes, volume("pv", "disk")))
	w.must(w.create("", ofVolumes, volume("foreign", "other")))
	for _, test := range []struct {
		of, resource, namespace, name string
		want                          bool
	}{
		{"a", "secrets", "storage", "stage", true}, {"a", "secrets", "storage", "controller", false}, {"b", "secrets", "storage", "stage", false},
		{"a", "persistentvolumes", "", "pv", true}, {"a", "persistentvolumes", "", "foreign", false}, {"b", "persistentvolumes", "", "pv", false},
	} {
		if got := w.may(test.of, "get", test.resource, test.namespace, test.name); got != test.want {
			t.Errorf("%s gets %s %s: %v", test.of, test.resource, test.name, got)
		}
	}
	w.must(w.create("", schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com", NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}}))
	storage := func(a *auth.Attributes) { a.Group = "storage.k8s.io" }
	if !w.may("a", "get", "volumeattachments", "", "va", storage) || w.may("b", "get", "volumeattachments", "", "va", storage) {
		t.Error("attachments are not those of the node")
	}
}

func TestAMirrorPodGivesItsNodeNothing(t *testing.T) {
	w := newWorld(t, nil)
	p := pod("p", "a", secretVolume("s"))
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	w.must(w.create("", ofPods, p))
	if w.may("a", "get", "secrets", "n", "s") {
		t.Error("a mirror pod gives a secret")
	}
}

func TestNodesUseTheirPartOfOtherResources(t *testing.T) {
	w := newWorld(t, nil)
	onNode := func(of string) func(*auth.Attributes) {
		return func(a *auth.Attributes) { a.Fields = fields.OneTermEqualSelector("spec.nodeName", of).Requirements() }
	}
	group := func(g string) func(*auth.Attributes) { return func(a *auth.Attributes) { a.Group = g } }
	sub := func(s string) func(*auth.Attributes) { return func(a *auth.Attributes) { a.Subresource = s } }
	both := func(one, other func(*auth.Attributes)) func(*auth.Attributes) {
		return func(a *auth.Attributes) { one(a); other(a) }
	}
	leases := group("coordination.k8s.io")
	for name, node := range map[string]*string{"own": new("a"), "other": new("b"), "everywhere": nil} {
		w.must(w.create("", ofSlices, deviceSlice(name, node)))
	}
	for _, test := range []struct {
		verb, resource, namespace, name string
		also                            func(*auth.Attributes)
		want                            bool
	}{
		{"list", "pods", "", "", onNode("a"), true}, {"list", "pods", "", "", onNode("b"), false}, {"list", "pods", "", "", nil, false},
		{"deletecollection", "pods", "n", "", onNode("a"), false}, {"patch", "pods", "n", "p", nil, false}, {"patch", "pods", "n", "p", sub("status"), true},
		{"create", "pods", "n", "p", sub("binding"), false}, {"create", "pods", "n", "p", sub("exec"), false}, {"get", "pods", "n", "p", sub("log"), false},
		{"get", "nodes", "", "a", nil, true}, {"get", "nodes", "", "b", nil, false}, {"list", "nodes", "", "", nil, false}, {"delete", "nodes", "", "a", nil, false},
		{"create", "nodes", "", "", nil, true}, {"patch", "nodes", "", "a", sub("status"), true}, {"get", "nodes", "", "a", sub("proxy"), false}, {"create", "nodes", "", "a", sub("proxy"), false},
		{"update", "leases", "kube-node-lease", "a", leases, true}, {"update", "leases", "kube-node-lease", "b", leases, false}, {"get", "leases", "kube-system", "a", leases, false},
		{"list", "leases", "kube-node-lease", "", leases, false},
		{"get", "csinodes", "", "a", group("storage.k8s.io"), true}, {"get", "csinodes", "", "b", group("storage.k8s.io"), false},
		{"list", "services", "", "", nil, true}, {"create", "services", "n", "", nil, false}, {"create", "events", "n", "", nil, true},
		{"create", "tokenreviews", "", "", group("authentication.k8s.io"), true}, {"list", "roles", "n", "", group("rbac.authorization.k8s.io"), false},
		{"impersonate", "users", "", "admin", nil, false},
		{"list", "resourceslices", "", "", both(group("resource.k8s.io"), onNode("a")), true}, {"deletecollection", "resourceslices", "", "", both(group("resource.k8s.io"), onNode("a")), true},
		{"deletecollection", "resourceslices", "", "", both(group("resource.k8s.io"), onNode("b")), false}, {"deletecollection", "resourceslices", "", "", group("resource.k8s.io"), false},
		{"create", "resourceslices", "", "", group("resource.k8s.io"), true}, {"update", "resourceslices", "", "own", group("resource.k8s.io"), true},
		{"delete", "resourceslices", "", "other", group("resource.k8s.io"), false}, {"get", "resourceslices", "", "everywhere", group("resource.k8s.io"), false},
	} {
		also := func(a *auth.Attributes) {
			if test.also != nil {
				test.also(a)
			}
		}
		if got := w.may("a", test.verb, test.resource, test.namespace, test.name, also); got != test.want {
			t.Errorf("%s %s %s/%s: %v", test.verb, test.resource, test.namespace, test.name, got)
		}
	}
}

func TestOnlyNodesAreNodes(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create("", ofPods, pod("p", "a", secretVolume("s"))))
	for _, u := range []auth.User{
		{Name: "system:node:a", Groups: []string{auth.Authenticated}}, {Name: "a", Groups: []string{auth.Nodes}}, {Name: "system:node:", Groups: []string{auth.Nodes}},
		{Name: "System:Node:a", Groups: []string{auth.Nodes}}, {Name: "system:node:A", Groups: []string{auth.Nodes}},
	} {
		at := auth.Attributes{User: u, Verb: "get", IsResource: true, Resource: "secrets", Namespace: "n", Name: "s"}
		if w.nodes.Authorize(t.Context(), at).Allowed() {
			t.Errorf("%+v is taken for the node", u)
		}
	}
}

// A node asks for a secret of one of its 30 pods among 10,000.
func BenchmarkAuthorizeASecret(b *testing.B) {
	w := newWorld(b, nil)
	for i := range 10_000 {
		w.must(w.create("", ofPods, pod(fmt.Sprintf("p%d", i), fmt.Sprintf("node-%d", i%333), secretVolume(fmt.Sprintf("s%d", i)))))
	}
	w.must(w.reg.Cache.WaitFor(b.Context(), w.storage(ofPods).Wrote()))
	b.ReportAllocs()
	for b.Loop() {
		if !w.may("node-7", "get", "secrets", "n", "s7") {
			b.Fatal("refused")
		}
	}
}
