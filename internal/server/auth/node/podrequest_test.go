package node_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
)

var (
	ofAccounts    = schema.GroupResource{Resource: "serviceaccounts"}
	ofPodRequests = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "podcertificaterequests"}
)

// uid is that of a stored object.
func (w *world) uid(gr schema.GroupResource, namespace, name string) types.UID {
	o, err := w.storage(gr).Get(w.ctx, namespace, name, registry.Freshness{})
	w.must(err)
	decoded, err := w.storage(gr).Kind().Decode(w.ctx, o.Value(), "1")
	w.must(err)
	return decoded.GetUID()
}

func certificateVolume(signer string) corev1.Volume {
	return corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{PodCertificate: &corev1.PodCertificateProjection{SignerName: signer, KeyType: "ED25519", KeyPath: "k"}},
	}}}}
}

func TestANodeAsksForCertificatesOfItsRunningPods(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create("", ofNodes, named("a", nil)))
	w.must(w.create("", ofNodes, named("b", nil)))
	w.must(w.create("", ofAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "robot"}}))
	w.must(w.create("", ofPods, pod("p", "a", certificateVolume("a.example/s"))))
	w.must(w.create("", ofPods, pod("q", "b", certificateVolume("a.example/s"))))
	mirror := pod("m", "a", certificateVolume("a.example/s"))
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	w.must(w.create("", ofPods, mirror))
	request := func() *certificatesv1.PodCertificateRequest {
		return &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "a.example/s", PodName: "p", PodUID: w.uid(ofPods, "n", "p"), NodeName: "a", NodeUID: w.uid(ofNodes, "", "a"),
			ServiceAccountName: "robot", ServiceAccountUID: w.uid(ofAccounts, "n", "robot"),
		}}
	}
	for what, c := range map[string]struct {
		do     func(*certificatesv1.PodCertificateRequestSpec)
		says   string
		behind bool // refused so that the node asks again
	}{
		"its own":         {func(*certificatesv1.PodCertificateRequestSpec) {}, "", false},
		"another node":    {func(s *certificatesv1.PodCertificateRequestSpec) { s.NodeName = "b" }, "which is not the requesting node", false},
		"an old node":     {func(s *certificatesv1.PodCertificateRequestSpec) { s.NodeUID = "x" }, "inconsistent with the running node", true},
		"no pod":          {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName = "none" }, `while retrieving pod "n/none"`, true},
		"an old pod":      {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodUID = "x" }, "differs from running pod", true},
		"another's pod":   {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName, s.PodUID = "q", w.uid(ofPods, "n", "q") }, "is not running on node", false},
		"a mirror":        {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName, s.PodUID = "m", w.uid(ofPods, "n", "m") }, "is a mirror pod", false},
		"another account": {func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountName = "other" }, "contains serviceAccountName", false},
		"an old account":  {func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountUID = "x" }, "names service account UID", true},
		"another signer":  {func(s *certificatesv1.PodCertificateRequestSpec) { s.SignerName = "b.example/s" }, "does not mount a podCertificate projected volume for signer", false},
	} {
		r := request()
		c.do(&r.Spec)
		kind := w.storage(ofPodRequests).Kind()
		err := w.reg.Admit(w.as("a"), &registry.Change{Operation: registry.Create, Kind: kind, Namespace: "n", Object: r})
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || apierrors.IsForbidden(err) == c.behind) {
			t.Errorf("%s: got %v, want %q", what, err, c.says)
		}
	}
}

func TestANodeReadsItsOwnRequestsForCertificates(t *testing.T) {
	w := newWorld(t, nil)
	_, key, err := ed25519.GenerateKey(nil)
	w.must(err)
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	w.must(err)
	for name, on := range map[string]types.NodeName{"own": "a", "other": "b"} {
		w.must(w.create("", ofPodRequests, &certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: "a.example/s", PodName: "p", PodUID: "u", ServiceAccountName: "s", ServiceAccountUID: "u", NodeName: on, NodeUID: "u", StubPKCS10Request: stub,
			}}))
	}
	for _, c := range []struct {
		verb, name, sub, on string
		want                bool
	}{
		{"get", "own", "", "", true}, {"get", "other", "", "", false}, {"create", "", "", "", true}, {"update", "own", "", "", false}, {"delete", "own", "", "", false},
		{"update", "own", "status", "", false}, {"get", "own", "status", "", false}, {"list", "", "", "a", true}, {"watch", "", "", "b", false}, {"list", "", "", "", false},
	} {
		got := w.may("a", c.verb, "podcertificaterequests", "n", c.name, func(at *auth.Attributes) {
			at.Group, at.Subresource = certificatesv1.GroupName, c.sub
			if c.on != "" {
				at.Fields = fields.OneTermEqualSelector("spec.nodeName", c.on).Requirements()
			}
		})
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
