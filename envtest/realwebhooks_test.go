package envtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/millrace/millrace/envtest"
)

// crew is a webhook as people write them with controller-runtime: it fills in a captain, and lets nobody sail without a
// crew.
type crew struct{}

func (crew) Default(_ context.Context, c *corev1.ConfigMap) error {
	if c.Data["captain"] == "" {
		if c.Data == nil {
			c.Data = map[string]string{}
		}
		c.Data["captain"] = "nobody"
	}
	return nil
}

func (crew) ValidateCreate(_ context.Context, c *corev1.ConfigMap) (admission.Warnings, error) {
	if c.Data["crew"] == "" {
		return nil, errors.New("nobody is on board")
	}
	if c.Data["captain"] == "nobody" {
		return admission.Warnings{"there is no captain"}, nil
	}
	return nil, nil
}

func (c crew) ValidateUpdate(ctx context.Context, before, after *corev1.ConfigMap) (admission.Warnings, error) {
	if before.Data["captain"] != "nobody" && after.Data["captain"] != before.Data["captain"] {
		return nil, apierrors.NewConflict(corev1.Resource("configmaps"), after.Name, errors.New("that is a mutiny"))
	}
	return c.ValidateCreate(ctx, after)
}

func (crew) ValidateDelete(_ context.Context, c *corev1.ConfigMap) (admission.Warnings, error) {
	if c.Data["crew"] != "rats" {
		return nil, errors.New("somebody is on board")
	}
	return nil, nil
}

// leading is a webhook's configuration that leads to a path of the suite. Ships are the config maps with a label.
func leading(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "ships", Path: &path}}
}

func aboutShips() (rules []admissionv1.RuleWithOperations, selector *metav1.LabelSelector) {
	return []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}, &metav1.LabelSelector{MatchLabels: map[string]string{"is": "ship"}}
}

func realWebhooks() envtest.WebhookInstallOptions {
	rules, selector := aboutShips()
	none := admissionv1.SideEffectClassNone
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "ships"}, Webhooks: []admissionv1.MutatingWebhook{{
			Name: "default.ships.example.com", ClientConfig: leading("/mutate--v1-configmap"), Rules: rules, ObjectSelector: selector, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}}}}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "ships"}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate.ships.example.com", ClientConfig: leading("/validate--v1-configmap"), Rules: rules, ObjectSelector: selector, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}}}}},
	}
}

// warnings keep what the server warns of.
type warnings struct{ said []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.said = append(w.said, text) }

func TestWebhooksOfControllerRuntimeDefaultAndValidate(t *testing.T) {
	g := NewWithT(t)
	env := &envtest.Environment{WebhookInstallOptions: realWebhooks()}
	config, err := env.Start()
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	defer func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
		g.Expect(env.Stop()).To(Succeed())
	}()
	o := env.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir})})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ctrl.NewWebhookManagedBy(manager, &corev1.ConfigMap{}).WithDefaulter(crew{}).WithValidator(crew{}).Complete()).To(Succeed())
	go func() { ended <- manager.Start(ctx) }()

	told := &warnings{}
	own := rest.CopyConfig(config)
	own.WarningHandler = told
	api, err := client.New(own, client.Options{Scheme: scheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	ship := func(name string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"is": "ship"}}, Data: data}
	}
	pinta := ship("pinta", map[string]string{"crew": "26"})
	// Until the suite serves its webhooks, requests that they are about fail.
	g.Eventually(func() error { return api.Create(ctx, pinta.DeepCopy(), client.DryRunAll) }).Should(Succeed())
	told.said = nil
	g.Expect(api.Create(ctx, pinta)).To(Succeed())
	g.Expect(pinta.Data).To(HaveKeyWithValue("captain", "nobody"))
	g.Expect(told.said).To(ConsistOf("there is no captain"))

	err = api.Create(ctx, ship("empty", nil))
	g.Expect(err).To(MatchError(ContainSubstring(`admission webhook "validate.ships.example.com" denied the request: nobody is on board`)))
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue())

	pinta.Data["captain"] = "Pinzón"
	g.Expect(api.Update(ctx, pinta)).To(Succeed())
	mutiny := client.RawPatch("application/merge-patch+json", []byte(`{"data": {"captain": "the cook"}}`))
	err = api.Patch(ctx, pinta.DeepCopy(), mutiny)
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), fmt.Sprint(err))
	g.Expect(err.Error()).To(ContainSubstring("that is a mutiny"))

	err = api.Delete(ctx, pinta.DeepCopy())
	g.Expect(err).To(MatchError(ContainSubstring("somebody is on board")))
	g.Expect(api.Patch(ctx, pinta, client.RawPatch("application/merge-patch+json", []byte(`{"data": {"crew": "rats"}}`)))).To(Succeed())
	g.Expect(api.Delete(ctx, pinta)).To(Succeed())
	g.Expect(api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "no-ship"}})).To(Succeed())
	g.Expect(strings.Join(told.said, "")).NotTo(ContainSubstring("error"))
}
