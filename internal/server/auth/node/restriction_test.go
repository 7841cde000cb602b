package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

func quantity(s string) apiresource.Quantity { return apiresource.MustParse(s) }

// refused checks that an error is Forbidden and says something; nothing to say means that there is to be no error.
func refused(t *testing.T, what string, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case says != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says)):
		t.Errorf("%s: got %v, want %q", what, err, says)
	}
}

func named(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestANodeChangesItselfAlone(t *testing.T) {
	w := newWorld(t, nil)
	refused(t, "another node", w.create("a", ofNodes, named("b", nil)), `node "a" is not allowed to modify node "b"`)
	refused(t, "a role", w.create("a", ofNodes, named("a", map[string]string{"node-role.kubernetes.io/control-plane": ""})), "is not allowed to set the following labels: node-role.kubernetes.io/control-plane")
	refused(t, "itself", w.create("a", ofNodes, named("a", map[string]string{corev1.LabelHostname: "a", "example.com/x": "y", "kubelet.kubernetes.io/z": ""})), "")
	for what, test := range map[string]struct {
		do   func(*corev1.Node)
		says string
	}{
		"taints": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} }, "not allowed to modify taints"},
		"owners": {func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "x", UID: "u"}}
		}, "not allowed to modify ownerReferences"},
		"restriction": {func(n *corev1.Node) { n.Labels["node-restriction.kubernetes.io/x"] = "" }, "is not allowed to modify labels: node-restriction.kubernetes.io/x"},
		"a zone":      {func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "z" }, ""},
		"own labels":  {func(n *corev1.Node) { n.Labels["example.com/x"] = "z" }, ""},
	} {
		refused(t, what, w.change("a", "", ofNodes, "", "a", func(o resource.Object) { test.do(o.(*corev1.Node)) }), test.says)
	}
	refused(t, "another's status", w.change("b", "status", ofNodes, "", "a", func(o resource.Object) { o.(*corev1.Node).Status.Phase = "x" }), "not allowed to modify node")
}

func TestANodeReportsAboutItsOwnPods(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create("", ofPods, pod("p", "a")))
	running := func(o resource.Object) { o.(*corev1.Pod).Status.Phase = corev1.PodRunning }
	refused(t, "its pod", w.change("a", "status", ofPods, "n", "p", running), "")
	refused(t, "another's", w.change("b", "status", ofPods, "n", "p", running), "can only update pod status for pods with spec.nodeName set to itself")
	refused(t, "labels", w.change("a", "status", ofPods, "n", "p", func(o resource.Object) { o.SetLabels(map[string]string{"a": "b"}) }), "cannot update labels through pod status")
	refused(t, "the spec", w.change("a", "", ofPods, "n", "p", func(o resource.Object) { o.(*corev1.Pod).Spec.Containers[0].Image = "example/other" }), "can only create and delete mirror pods")
	_, err := w.storage(ofPods).Delete(w.as("b"), "n", "p", metav1.DeleteOptions{}, registry.WriteOptions{})
	refused(t, "deletes another's", err, "can only delete pods with spec.nodeName set to itself")
	_, err = w.storage(ofPods).Delete(w.as("a"), "n", "p", metav1.DeleteOptions{}, registry.WriteOptions{})
	refused(t, "deletes its own", err, "")
}

func TestAMirrorPodIsTheNodesOwnAndUsesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create("a", ofNodes, named("a", nil)))
	self, err := w.storage(ofNodes).Get(w.ctx, "", "a", registry.Freshness{})
	w.must(err)
	o, err := w.storage(ofNodes).Kind().Decode(w.ctx, self.Value(), "1")
	w.must(err)
	for what, test := range map[string]struct {
		do   func(*corev1.Pod)
		says string
	}{
		"good":          {func(*corev1.Pod) {}, ""},
		"no annotation": {func(p *corev1.Pod) { p.Annotations = nil }, "can only create mirror pods"},
		"elsewhere":     {func(p *corev1.Pod) { p.Spec.NodeName = "b" }, "can only create pods with spec.nodeName set to itself"},
		"nobody's":      {func(p *corev1.Pod) { p.OwnerReferences = nil }, "can only create pods with an owner reference set to itself"},
		"another uid":   {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" }, "UID mismatch"},
		"an account":    {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }, "can not create pods that reference serviceaccounts"},
		"a secret":      {func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{secretVolume("s")} }, "can not create pods that reference secrets (via secret volumes)"},
		"a claim":       {func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claimVolume("c")} }, "can not create pods that reference persistentvolumeclaims"},
		"pull secrets":  {func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }, "can not create pods that reference secrets"},
	} {
		p := pod(strings.ReplaceAll(what, " ", "-")+"-x", "a")
		if what == "nobody's" {
			p.Name = "nobodys"
		}
		p.Spec.ServiceAccountName = ""
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: o.GetUID(), Controller: new(true)}}
		test.do(p)
		refused(t, what, w.create("a", ofPods, p), test.says)
	}
}

// admit asks about an action.
func (w *world) admit(by string, gr schema.GroupResource, view, namespace, name string, body runtime.Object) error {
	return w.reg.Admit(w.as(by), &registry.Change{Operation: registry.Create, Kind: w.storage(gr).Kind(), View: view, Namespace: namespace, Name: name, Body: body})
}

func TestANodeGetsTokensForItsPods(t *testing.T) {
	w := newWorld(t, nil)
	p := pod("p", "a", corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault"}}}}}})
	w.must(w.create("", ofPods, p))
	stored, err := w.storage(ofPods).Get(w.ctx, "n", "p", registry.Freshness{})
	w.must(err)
	o, err := w.storage(ofPods).Kind().Decode(w.ctx, stored.Value(), "1")
	w.must(err)
	ref := authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: o.GetUID()}
	for what, test := range map[string]struct {
		by   string
		do   func(*authenticationv1.TokenRequestSpec)
		says string
	}{
		"its pod":           {"a", func(*authenticationv1.TokenRequestSpec) {}, ""},
		"its audience":      {"a", func(s *authenticationv1.TokenRequestSpec) { s.Audiences = []string{"vault"} }, ""},
		"another audience":  {"a", func(s *authenticationv1.TokenRequestSpec) { s.Audiences = []string{"bank"} }, `is not authorized to request tokens for audience "bank"`},
		"two audiences":     {"a", func(s *authenticationv1.TokenRequestSpec) { s.Audiences = []string{"vault", ""} }, "may only request 0 or 1 audiences"},
		"another's pod":     {"b", func(*authenticationv1.TokenRequestSpec) {}, "token bound to a pod scheduled on a different node"},
		"unbound":           {"a", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef = nil }, "not bound to a pod"},
		"bound to the node": {"a", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.Kind = "Node" }, "not bound to a pod"},
		"without a uid":     {"a", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.UID = "" }, "without a uid"},
		"an older pod":      {"a", func(s *authenticationv1.TokenRequestSpec) { s.BoundObjectRef.UID = "x" }, "does not match the UID in record"},
	} {
		bound := ref
		r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &bound}}
		test.do(&r.Spec)
		refused(t, what, w.admit(test.by, schema.GroupResource{Resource: "serviceaccounts"}, "token", "n", "robot", r), test.says)
	}
	refused(t, "evicts its own", w.admit("a", ofPods, "eviction", "n", "p", &policyv1.Eviction{}), "")
	refused(t, "evicts another's", w.admit("b", ofPods, "eviction", "n", "p", &policyv1.Eviction{}), "can only evict pods with spec.nodeName set to itself")
}

func TestANodeHasItsOwnLeaseAndCertificates(t *testing.T) {
	w := newWorld(t, nil)
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	lease := func(namespace, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	refused(t, "its lease", w.create("a", leases, lease("kube-node-lease", "a")), "")
	refused(t, "another's", w.create("a", leases, lease("kube-node-lease", "b")), "node lease with the same name")
	refused(t, "elsewhere", w.create("a", leases, lease("kube-system", "a")), "system namespace")
	requests := schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}
	refused(t, "its certificate", w.create("a", requests, signing(t, "one", "system:node:a")), "")
	refused(t, "another's certificate", w.create("a", requests, signing(t, "two", "system:node:b")), "can only create a node CSR with CN=system:node:a")
	refused(t, "a lookalike", w.create("a", requests, signing(t, "three", "system:node:a.example")), "can only create a node CSR with CN=system:node:a")
}

func signing(t *testing.T, name, commonName string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}}
}

var ofSlices = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}

// deviceSlice is a slice of the devices of a node; without one they are everywhere.
func deviceSlice(name string, node *string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "devices.example.com", Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1}, NodeName: node,
	}}
	if node == nil {
		s.Spec.AllNodes = new(true)
	}
	return s
}

func TestANodeHasTheSlicesOfItsOwnDevices(t *testing.T) {
	w := newWorld(t, nil)
	const says = "ResourceSlice with the same NodeName as the requesting node"
	refused(t, "its own", w.create("a", ofSlices, deviceSlice("own", new("a"))), "")
	refused(t, "another's", w.create("a", ofSlices, deviceSlice("other", new("b"))), "can only create "+says)
	refused(t, "everybody's", w.create("a", ofSlices, deviceSlice("everywhere", nil)), "can only create "+says)
	for name, says := range map[string]string{"own": "", "other": "can only delete " + says} {
		if name == "other" {
			w.must(w.create("", ofSlices, deviceSlice(name, new("b"))))
		}
		_, err := w.storage(ofSlices).Delete(w.as("a"), "", name, metav1.DeleteOptions{}, registry.WriteOptions{})
		refused(t, "deletes "+name, err, says)
	}
}
