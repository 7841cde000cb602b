package admission_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

func TestNothingIsCreatedWhereNothingMayBe(t *testing.T) {
	w := newServer(t, admission.Options{})
	_, err := w.Try("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "nowhere"}}, registry.WriteOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "nowhere" not found`) {
		t.Errorf("got %v", err)
	}
	w.update("namespaces", "", "n", "", func(o resource.Object) { o.SetFinalizers([]string{"example.com/hold"}) })
	if _, err := w.Of("namespaces").Delete(t.Context(), "", "n", metav1.DeleteOptions{}, registry.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.settle()
	_, err = w.Try("configmaps", &corev1.ConfigMap{ObjectMeta: meta("a")}, registry.WriteOptions{})
	refused(t, err, `configmaps "a" is forbidden: unable to create new content in namespace n because it is being terminated`)
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("no cause in %#v", err)
	}
	w.create("namespaces", &corev1.Namespace{ObjectMeta: meta("default")})
	_, err = w.Of("namespaces").Delete(t.Context(), "", "default", metav1.DeleteOptions{}, registry.WriteOptions{})
	refused(t, err, "this namespace may not be deleted")
}

func TestPodsGetThePriorityOfTheirClass(t *testing.T) {
	w := newServer(t, admission.Options{})
	if p := w.create("pods", pod("plain")).(*corev1.Pod); *p.Spec.Priority != 0 || *p.Spec.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("%+v", p.Spec)
	}
	never := corev1.PreemptNever
	w.create("priorityclasses.scheduling.k8s.io", &schedulingv1.PriorityClass{ObjectMeta: meta("high"), Value: 7, PreemptionPolicy: &never})
	p := w.create("pods", pod("high", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })).(*corev1.Pod)
	if *p.Spec.Priority != 7 || *p.Spec.PreemptionPolicy != never {
		t.Errorf("%+v", p.Spec)
	}
	_, err := w.Try("pods", pod("a", func(p *corev1.Pod) { p.Spec.PriorityClassName = "none" }), registry.WriteOptions{})
	refused(t, err, "no PriorityClass with name none was found")
	_, err = w.Try("pods", pod("a", func(p *corev1.Pod) { p.Spec.Priority = new(int32(3)) }), registry.WriteOptions{})
	refused(t, err, "the integer value of priority (3) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name")

	w.create("priorityclasses.scheduling.k8s.io", &schedulingv1.PriorityClass{ObjectMeta: meta("usual"), Value: 2, GlobalDefault: true})
	if p := w.create("pods", pod("usual")).(*corev1.Pod); *p.Spec.Priority != 2 || p.Spec.PriorityClassName != "usual" {
		t.Errorf("%+v", p.Spec)
	}
	_, err = w.Try("priorityclasses.scheduling.k8s.io", &schedulingv1.PriorityClass{ObjectMeta: meta("other"), GlobalDefault: true}, registry.WriteOptions{})
	refused(t, err, "PriorityClass usual is already marked as default. Only one default can exist")
}

func TestNewNodesWaitUntilTheyAreSeenToBeReady(t *testing.T) {
	w := newServer(t, admission.Options{})
	n := w.create("nodes", &corev1.Node{ObjectMeta: meta("a")}).(*corev1.Node)
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0] != (corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}) {
		t.Errorf("%+v", n.Spec.Taints)
	}
}

func TestBoundPodsKnowWhereTheyAre(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelTopologyZone: "z", "other": "x"}}})
	p := w.create("pods", pod("p", func(p *corev1.Pod) { p.Spec.NodeName = "a" }))
	if l := p.GetLabels(); l[corev1.LabelTopologyZone] != "z" || len(l) != 1 {
		t.Errorf("%v", l)
	}
	w.create("pods", pod("lost", func(p *corev1.Pod) { p.Spec.NodeName = "nowhere" }))
}

func TestVolumesInUseAreProtected(t *testing.T) {
	w := newServer(t, admission.Options{})
	if c := w.create("persistentvolumeclaims", claim("c", "1Gi")); !slices.Equal(c.GetFinalizers(), []string{"kubernetes.io/pvc-protection"}) {
		t.Errorf("%v", c.GetFinalizers())
	}
	v := &corev1.PersistentVolume{ObjectMeta: meta("v"), Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}},
	}}
	if v := w.create("persistentvolumes", v); !slices.Equal(v.GetFinalizers(), []string{"kubernetes.io/pv-protection"}) {
		t.Errorf("%v", v.GetFinalizers())
	}
}

func claim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: meta(name), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse(size)}},
	}}
}

func TestClaimsAndIngressesGetTheDefaultClass(t *testing.T) {
	w := newServer(t, admission.Options{})
	if c := w.create("persistentvolumeclaims", claim("none", "1Gi")).(*corev1.PersistentVolumeClaim); c.Spec.StorageClassName != nil {
		t.Errorf("%+v", c.Spec)
	}
	marked := func(name, with string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Annotations: map[string]string{with: "true"}}
	}
	w.create("storageclasses.storage.k8s.io", &storagev1.StorageClass{ObjectMeta: meta("slow"), Provisioner: "p"})
	w.create("storageclasses.storage.k8s.io", &storagev1.StorageClass{ObjectMeta: marked("fast", "storageclass.kubernetes.io/is-default-class"), Provisioner: "p"})
	if c := w.create("persistentvolumeclaims", claim("c", "1Gi")).(*corev1.PersistentVolumeClaim); c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != "fast" {
		t.Errorf("%+v", c.Spec)
	}
	own := claim("own", "1Gi")
	own.Spec.StorageClassName = new("")
	if c := w.create("persistentvolumeclaims", own).(*corev1.PersistentVolumeClaim); *c.Spec.StorageClassName != "" {
		t.Errorf("%+v", c.Spec)
	}
	w.create("ingressclasses.networking.k8s.io", &networkingv1.IngressClass{
		ObjectMeta: marked("web", networkingv1.AnnotationIsDefaultIngressClass), Spec: networkingv1.IngressClassSpec{Controller: "example.com/web"}})
	i := &networkingv1.Ingress{ObjectMeta: meta("i"), Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}}}}
	if i := w.create("ingresses.networking.k8s.io", i).(*networkingv1.Ingress); i.Spec.IngressClassName == nil || *i.Spec.IngressClassName != "web" {
		t.Errorf("%+v", i.Spec)
	}
}

func TestClaimsGrowOnlyWhereTheirClassLetsThem(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("storageclasses.storage.k8s.io", &storagev1.StorageClass{ObjectMeta: meta("rigid"), Provisioner: "p"})
	w.create("storageclasses.storage.k8s.io", &storagev1.StorageClass{ObjectMeta: meta("elastic"), Provisioner: "p", AllowVolumeExpansion: new(true)})
	grow := func(o resource.Object) {
		o.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests = corev1.ResourceList{"storage": apiresource.MustParse("2Gi")}
	}
	for _, class := range []string{"rigid", "elastic"} {
		c := claim(class, "1Gi")
		c.Spec.StorageClassName, c.Spec.VolumeName = &class, "v"
		w.create("persistentvolumeclaims", c)
		w.update("persistentvolumeclaims", "n", class, "status", func(o resource.Object) {
			o.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimBound
		})
	}
	_, err := w.tryUpdate("persistentvolumeclaims", "n", "rigid", "", grow)
	refused(t, err, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	w.update("persistentvolumeclaims", "n", "elastic", "", grow)
}

func TestRuntimeClassesCostAndBindPods(t *testing.T) {
	w := newServer(t, admission.Options{})
	with := func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("boxed") }
	_, err := w.Try("pods", pod("p", with), registry.WriteOptions{})
	refused(t, err, `pods "p" is forbidden: pod rejected: RuntimeClass "boxed" not found`)
	_, err = w.Try("pods", pod("p", func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{"cpu": apiresource.MustParse("1")} }), registry.WriteOptions{})
	refused(t, err, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")

	w.create("runtimeclasses.node.k8s.io", &nodev1.RuntimeClass{ObjectMeta: meta("boxed"), Handler: "boxed",
		Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": apiresource.MustParse("250m")}},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"boxes": "yes"}, Tolerations: []corev1.Toleration{{Key: "box", Operator: "Exists"}}}})
	p := w.create("pods", pod("p", with)).(*corev1.Pod)
	if cpu := p.Spec.Overhead["cpu"]; cpu.String() != "250m" || p.Spec.NodeSelector["boxes"] != "yes" || p.Spec.Tolerations[len(p.Spec.Tolerations)-1].Key != "box" {
		t.Errorf("%+v", p.Spec)
	}
	_, err = w.Try("pods", pod("q", with, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"boxes": "no"} }), registry.WriteOptions{})
	refused(t, err, "conflict: runtimeClass.Scheduling.NodeSelector[boxes] = yes; pod.Spec.NodeSelector[boxes] = no")
}

func TestPodsGetAnAccountAndItsToken(t *testing.T) {
	w := newServer(t, admission.Options{ServiceAccounts: true})
	_, err := w.Try("pods", pod("p", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "robot" }), registry.WriteOptions{})
	refused(t, err, `pods "p" is forbidden: error looking up service account n/robot: serviceaccount "robot" not found`)
	w.create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("default"), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}})
	p := w.create("pods", pod("p")).(*corev1.Pod)
	spec := p.Spec
	if spec.ServiceAccountName != "default" || spec.DeprecatedServiceAccount != "default" || len(spec.ImagePullSecrets) != 1 {
		t.Errorf("%+v", spec)
	}
	if len(spec.Volumes) != 1 || !strings.HasPrefix(spec.Volumes[0].Name, "kube-api-access-") || len(spec.Volumes[0].Projected.Sources) != 3 {
		t.Fatalf("%+v", spec.Volumes)
	}
	want := corev1.VolumeMount{Name: spec.Volumes[0].Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	if m := spec.Containers[0].VolumeMounts; len(m) != 1 || !equality.Semantic.DeepEqual(m[0], want) {
		t.Errorf("%+v", m)
	}
	p = w.create("pods", pod("alone", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(false) })).(*corev1.Pod)
	if len(p.Spec.Volumes) != 0 || p.Spec.ServiceAccountName != "default" {
		t.Errorf("%+v", p.Spec)
	}
}

// The pod is what webhooks and policies have made of it: what comes after the account's plugin does not get around it.
func TestAPodsAccountIsCheckedAfterOthersHaveChangedThePod(t *testing.T) {
	change := func(*corev1.Pod) {}
	w := newServer(t, admission.Options{ServiceAccounts: true, Extensions: []registry.Admission{{
		Name: "MutatingAdmissionWebhook", Mutate: func(_ context.Context, c *registry.Change) error {
			if p, ok := c.Object.(*corev1.Pod); ok {
				change(p)
			}
			return nil
		},
	}}})
	w.create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("default")})
	for _, test := range []struct {
		change func(*corev1.Pod)
		want   string
	}{
		{func(p *corev1.Pod) { p.Spec.ServiceAccountName = "robot" }, `error looking up service account n/robot: serviceaccount "robot" not found`},
		{func(p *corev1.Pod) {
			p.Spec.ServiceAccountName, p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = "", nil, nil
		}, "no service account specified for pod n/p"},
		{func(p *corev1.Pod) {
			p.Annotations, p.Spec.ServiceAccountName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, ""
			p.Spec.NodeName, p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = "node", nil, nil
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		}, "a mirror pod may not reference secrets"},
	} {
		change = test.change
		_, err := w.Try("pods", pod("p"), registry.WriteOptions{})
		refused(t, err, test.want)
	}
}

func TestAnAccountMayLimitItsPodsToTheSecretsThatItLists(t *testing.T) {
	w := newServer(t, admission.Options{ServiceAccounts: true})
	account := &corev1.ServiceAccount{ObjectMeta: meta("default"), Secrets: []corev1.ObjectReference{{Name: "listed"}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}}
	account.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
	w.create("serviceaccounts", account)
	key := func(name string) []corev1.EnvVar {
		ref := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k"}
		return []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}}
	}
	from := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	const end = " is not allowed because service account default does not reference that "
	for want, change := range map[string]func(*corev1.PodSpec){
		`volume with secret.secretName="s"` + end + "secret": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
		},
		`projected volume with secret.secretName="s"` + end + "secret": func(s *corev1.PodSpec) {
			sources := []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}
		},
		`container c with envVar E referencing secret.secretName="s"` + end + "secret": func(s *corev1.PodSpec) { s.Containers[0].Env = key("s") },
		`container c with envFrom referencing secret.secretName="s"` + end + "secret":  func(s *corev1.PodSpec) { s.Containers[0].EnvFrom = from },
		`init container i with envFrom referencing secret.secretName="s"` + end + "secret": func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", Image: "i", EnvFrom: from}}
		},
		`imagePullSecrets[0].name="s"` + end + "imagePullSecret": func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
	} {
		_, err := w.Try("pods", pod("p", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "c"; change(&p.Spec) }), registry.WriteOptions{})
		refused(t, err, want)
	}
	w.create("pods", pod("p", func(p *corev1.Pod) { p.Spec.Containers[0].Env = key("listed") }))
	_, err := w.tryUpdate("pods", "n", "p", "ephemeralcontainers", func(o resource.Object) {
		p := o.(*corev1.Pod)
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "e", Image: "i", Env: key("s"), ImagePullPolicy: corev1.PullAlways, TerminationMessagePolicy: corev1.TerminationMessageReadFile}}}
	})
	refused(t, err, `ephemeral container e with envVar E referencing secret.secretName="s"`+end+"secret")
}

func TestAPodMayBeQuickerThanItsAccount(t *testing.T) {
	w := newServer(t, admission.Options{ServiceAccounts: true})
	made := make(chan error)
	go func() {
		_, err := w.Try("pods", pod("p"), registry.WriteOptions{})
		made <- err
	}()
	w.create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("default")})
	if err := <-made; err != nil {
		t.Error(err)
	}
}

func TestWithoutAccountsPodsHaveNone(t *testing.T) {
	w := newServer(t, admission.Options{})
	if p := w.create("pods", pod("p")).(*corev1.Pod); p.Spec.ServiceAccountName != "" || len(p.Spec.Volumes) != 0 {
		t.Errorf("%+v", p.Spec)
	}
}

// only lets one verb be done.
type only string

func (o only) Authorize(_ context.Context, a auth.Attributes) auth.Verdict {
	if a.Verb == string(o) && a.Resource == "signers" && a.Name == "example.com/*" {
		return auth.Verdict{Decision: auth.Allow}
	}
	return auth.Verdict{}
}

func (only) Rules(context.Context, auth.User, string) auth.Rules { return auth.Rules{} }

func TestCertificatesAreApprovedAndSignedByThoseWhoMay(t *testing.T) {
	approve := func(o resource.Object) {
		r := o.(*certificatesv1.CertificateSigningRequest)
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: "True", Reason: "r"})
	}
	fail := func(o resource.Object) {
		r := o.(*certificatesv1.CertificateSigningRequest)
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateFailed, Status: "True", Reason: "r"})
	}
	const of = "certificatesigningrequests.certificates.k8s.io"
	w := newServer(t, admission.Options{Authorize: only("approve")})
	w.create(of, signing(t, "a", "example.com/s", "some"))
	w.update(of, "", "a", "approval", approve)
	_, err := w.tryUpdate(of, "", "a", "status", fail)
	refused(t, err, `user not permitted to sign requests with signerName "example.com/s"`)

	w = newServer(t, admission.Options{Authorize: only("sign")})
	w.create(of, signing(t, "a", "example.com/s", "some"))
	_, err = w.tryUpdate(of, "", "a", "approval", approve)
	refused(t, err, `user not permitted to approve requests with signerName "example.com/s"`)
	w.update(of, "", "a", "status", fail)

	_, err = w.Try(of, signing(t, "b", certificatesv1.KubeAPIServerClientSignerName, "system:masters"), registry.WriteOptions{})
	refused(t, err, "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")
}

func TestThoseWhoMaySignEndRequestsForCertificatesOfPods(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	deny := func(o resource.Object) {
		o.(*certificatesv1.PodCertificateRequest).Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True", Reason: "R", LastTransitionTime: metav1.Now()}}
	}
	const of = "podcertificaterequests.certificates.k8s.io"
	for verb, may := range map[string]bool{"sign": true, "approve": false} {
		w := newServer(t, admission.Options{Authorize: only(verb), Disable: admission.Names()})
		w.create(of, &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}, Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "u", ServiceAccountName: "s", ServiceAccountUID: "u", NodeName: "n", NodeUID: "u", StubPKCS10Request: stub,
		}})
		if _, err := w.tryUpdate(of, "default", "r", "status", func(resource.Object) {}); err != nil {
			t.Errorf("to change nothing is refused: %v", err)
		}
		_, err := w.tryUpdate(of, "default", "r", "status", deny)
		if (err == nil) != may || err != nil && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `is not permitted to "sign" for signer "example.com/s"`)) {
			t.Errorf("who may %s gets %v", verb, err)
		}
	}
}

func signing(t *testing.T, name, signer, organization string) *certificatesv1.CertificateSigningRequest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "a", Organization: []string{organization}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: meta(name), Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
	}}
}
