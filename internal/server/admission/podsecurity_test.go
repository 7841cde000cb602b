package admission_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// labelled is a namespace with Pod Security labels: "enforce=baseline".
func labelled(name string, modes ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, m := range modes {
		key, value, _ := strings.Cut(m, "=")
		ns.Labels["pod-security.kubernetes.io/"+key] = value
	}
	return ns
}

func hostile(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Image: "i"}}, HostNetwork: true}}
}

// told are what a request was told beside its answer.
type told struct{ warnings, annotations []string }

func (t *told) options() registry.WriteOptions {
	return registry.WriteOptions{
		Warn:     func(text string) { t.warnings = append(t.warnings, text) },
		Annotate: func(key, value string) { t.annotations = append(t.annotations, key+"="+value) },
	}
}

const violation = `violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`

func TestPodsAreHeldAgainstTheStandardOfTheirNamespace(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("namespaces", labelled("strict", "enforce=baseline"))
	w.create("namespaces", labelled("lax", "warn=baseline", "audit=restricted", "audit-version=v1.25"))
	var refused told
	_, err := w.Try("pods", hostile("strict", "p"), refused.options())
	if want := `pods "p" is forbidden: violates` + strings.TrimPrefix(violation, "violate"); err == nil || err.Error() != want {
		t.Errorf("refused with %v, want %s", err, want)
	}
	if !slices.Contains(refused.annotations, "pod-security.kubernetes.io/enforce-policy=baseline:latest") || refused.warnings != nil {
		t.Errorf("told %v", refused)
	}
	var warned told
	if _, err := w.Try("pods", hostile("lax", "p"), warned.options()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"would " + violation}; !slices.Equal(warned.warnings, want) {
		t.Errorf("warned of %q, want %q", warned.warnings, want)
	}
	if !slices.ContainsFunc(warned.annotations, func(a string) bool {
		return strings.HasPrefix(a, `pod-security.kubernetes.io/audit-violations=would violate PodSecurity "restricted:v1.25": host namespaces`)
	}) {
		t.Errorf("annotations %q", warned.annotations)
	}
}

func TestTemplatesOfPodsAreOnlyWarnedOf(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("namespaces", labelled("strict", "enforce=baseline", "warn=baseline"))
	var got told
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "strict", Name: "t"}, Template: corev1.PodTemplateSpec{Spec: hostile("", "").Spec}}
	if _, err := w.Try("podtemplates", template, got.options()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"would " + violation}; !slices.Equal(got.warnings, want) {
		t.Errorf("warned of %q", got.warnings)
	}
}

func TestNamespacesWantLabelsThatCanBeUnderstood(t *testing.T) {
	w := newServer(t, admission.Options{})
	_, err := w.Try("namespaces", labelled("odd", "enforce=strict", "warn-version=1.2"), registry.WriteOptions{})
	want := `Namespace "odd" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted, ` +
		`metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.2": must be "latest" or "v1.x"]`
	if err == nil || err.Error() != want {
		t.Errorf("refused with\n%v, want\n%s", err, want)
	}
}

func TestStricterNamespaceNamesThePodsThatBreakItsRules(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("namespaces", labelled("ns"))
	w.create("pods", hostile("ns", "b"))
	w.create("pods", hostile("ns", "a"))
	var got told
	_, _, err := w.Of("namespaces").Update(context.Background(), "", "ns", func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*corev1.Namespace)
		o.Labels = labelled("", "enforce=baseline").Labels
		return o, nil
	}, registry.UpdateOptions{WriteOptions: got.options()})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"`, "a (and 1 other pod): host namespaces"}
	if !slices.Equal(got.warnings, want) {
		t.Errorf("warned of %q, want %q", got.warnings, want)
	}
}

func configured(t *testing.T, text string) admission.Configuration {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := admission.ReadConfiguration(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigurationSetsTheStandardAndItsExemptions(t *testing.T) {
	w := newServer(t, admission.Options{Configuration: configured(t, `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline}
    exemptions: {namespaces: [free]}
`)})
	w.create("namespaces", labelled("free"))
	if _, err := w.Try("pods", hostile("n", "p"), registry.WriteOptions{}); err == nil {
		t.Error("a pod with the network of its node was let in")
	}
	var got told
	if _, err := w.Try("pods", hostile("free", "p"), got.options()); err != nil || !slices.Equal(got.annotations, []string{"pod-security.kubernetes.io/exempt=namespace"}) {
		t.Errorf("in an exempt namespace: %v, %q", err, got.annotations)
	}
}

func TestChoiceOfPluginsIsCheckedInTheWordsOfKubernetes(t *testing.T) {
	for want, o := range map[string]admission.Options{
		`enable-admission-plugins plugin "Nope" is unknown`:                                                      {Enable: []string{"Nope"}},
		`disable-admission-plugins plugin "Nope" is unknown`:                                                     {Disable: []string{"Nope"}},
		"[PodSecurity] in enable-admission-plugins and disable-admission-plugins overlapped":                     {Enable: []string{"PodSecurity"}, Disable: []string{"PodSecurity"}},
		`failed to initialize admission plugin "EventRateLimit": limits: Invalid value: null: must not be empty`: {Enable: []string{"EventRateLimit"}},
	} {
		if _, err := admission.New(o); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPluginsThatAreSwitchedOn(t *testing.T) {
	w := newServer(t, admission.Options{
		Enable: []string{"AlwaysPullImages", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "PodNodeSelector", "DenyServiceExternalIPs", "NamespaceAutoProvision", "EventRateLimit"},
		Configuration: admission.Configuration{
			"PodNodeSelector": []byte(`{"podNodeSelectorPluginConfig":{"clusterDefaultNodeSelector":"disk=ssd"}}`),
			"EventRateLimit":  []byte(`{"limits":[{"type":"Server","qps":1,"burst":1}]}`),
		},
	})
	gpu := corev1.ResourceList{"example.com/gpu": apiresource.MustParse("1")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "made"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1",
		Resources: corev1.ResourceRequirements{Requests: gpu, Limits: gpu}}}}}
	made := w.create("pods", pod).(*corev1.Pod)
	if p := made.Spec.Containers[0].ImagePullPolicy; p != corev1.PullAlways {
		t.Errorf("pull policy %s", p)
	}
	if made.Spec.NodeSelector["disk"] != "ssd" {
		t.Errorf("node selector %v", made.Spec.NodeSelector)
	}
	if !slices.ContainsFunc(made.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "example.com/gpu" }) {
		t.Errorf("tolerations %v", made.Spec.Tolerations)
	}
	apart := hostile("n", "apart")
	apart.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}}}
	for want, try := range map[string]func() error{
		`pods "apart" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed`: func() error {
			_, err := w.Try("pods", apart, registry.WriteOptions{})
			return err
		},
		`services "s" is forbidden: Use of external IPs is denied by admission control`: func() error {
			_, err := w.Try("services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1",
				Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"1.2.3.4"}}}, registry.WriteOptions{})
			return err
		},
		`Too many requests: limit reached on type Server for key `: func() error {
			var err error
			for _, name := range []string{"e1", "e2"} {
				_, err = w.Try("events", &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: "n"}}, registry.WriteOptions{})
			}
			return err
		},
	} {
		if err := try(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
