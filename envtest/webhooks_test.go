package envtest_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/envtest"
)

func TestConfigurationsOfWebhooksLeadToTheSuite(t *testing.T) {
	env := &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"testdata/webhooks"}}}
	kube := start(t, env)
	o := env.WebhookInstallOptions
	hooks, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "mutating-webhook-configuration", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("https://%s:%d/mutate-ship", o.LocalServingHost, o.LocalServingPort)
	if c := hooks.Webhooks[0].ClientConfig; c.Service != nil || c.URL == nil || *c.URL != want || string(c.CABundle) != string(o.LocalServingCAData) {
		t.Errorf("%+v leads not to %s", c, want)
	}
	if _, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "validating-webhook-configuration", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(o.LocalServingCertDir, "tls.crt"), filepath.Join(o.LocalServingCertDir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(o.LocalServingCAData)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("the authority does not stand for the certificate: %v", err)
	}
}

// Boat has two versions: one is the hub, the other can be converted, as controller-runtime's interfaces have it.
type (
	boat struct {
		metav1.TypeMeta
		metav1.ObjectMeta
	}
	hubBoat   struct{ boat }
	spokeBoat struct{ boat }
	hub       interface {
		runtime.Object
		Hub()
	}
)

func (b *hubBoat) DeepCopyObject() runtime.Object   { c := *b; return &c }
func (b *spokeBoat) DeepCopyObject() runtime.Object { c := *b; return &c }
func (*hubBoat) Hub()                               {}
func (*spokeBoat) ConvertTo(hub) error              { return nil }
func (*spokeBoat) ConvertFrom(hub) error            { return nil }

func TestOnlyKindsThatTheSchemeConvertsAreConvertedByWebhooks(t *testing.T) {
	scheme := runtime.NewScheme()
	group := schema.GroupVersion{Group: "sea.example.com", Version: "v1"}
	scheme.AddKnownTypeWithName(group.WithKind("Boat"), &hubBoat{})
	scheme.AddKnownTypeWithName(schema.GroupVersion{Group: group.Group, Version: "v2"}.WithKind("Boat"), &spokeBoat{})
	scheme.AddKnownTypeWithName(group.WithKind("Raft"), &spokeBoat{})
	env := &envtest.Environment{Scheme: scheme, CRDs: []*apiextensionsv1.CustomResourceDefinition{definition("Boat"), definition("Raft")}}
	start(t, env)
	for _, crd := range env.CRDs {
		by := crd.Spec.Conversion.Strategy
		if want := map[string]apiextensionsv1.ConversionStrategyType{"Boat": "Webhook", "Raft": "None"}[crd.Spec.Names.Kind]; by != want {
			t.Errorf("a %s is converted by %s", crd.Spec.Names.Kind, by)
		}
	}
}

// definition is one of a kind whose objects may hold anything.
func definition(kind string) *apiextensionsv1.CustomResourceDefinition {
	plural, keep := plural(kind), true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".sea.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "sea.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}}},
		},
	}
}
