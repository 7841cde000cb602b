package envtest_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/millrace/millrace/envtest"
)

// mirror is a reconciler as people write them: it keeps a secret beside each config map.
type mirror struct {
	client.Client
}

func (m *mirror) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	from := &corev1.ConfigMap{}
	if err := m.Get(ctx, r.NamespacedName, from); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, m.Client, to, func() error {
		to.StringData = from.Data
		return controllerutil.SetControllerReference(from, to, m.Scheme())
	})
	return ctrl.Result{}, err
}

// TestASuiteOfControllerRuntimeRunsHere is the shape of a suite that kubebuilder writes: an environment, a manager, a
// client, and komega's helpers. Only the import of envtest is another one.
func TestASuiteOfControllerRuntimeRunsHere(t *testing.T) {
	g := NewWithT(t)
	testEnv := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}, ErrorIfCRDPathMissing: true}
	config, err := testEnv.Start()
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	defer func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
		g.Expect(testEnv.Stop()).To(Succeed())
	}()

	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&mirror{manager.GetClient()})).To(Succeed())
	go func() { ended <- manager.Start(ctx) }()

	k8sClient, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	k := komega.New(k8sClient)
	from := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}, Data: map[string]string{"word": "hello"}}
	g.Expect(k8sClient.Create(ctx, from)).To(Succeed())
	to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}}
	g.Eventually(k.Object(to)).Should(HaveField("Data", HaveKeyWithValue("word", []byte("hello"))))
	g.Eventually(k.Update(from, func() { from.Data["word"] = "goodbye" })).Should(Succeed())
	g.Eventually(k.Object(to)).Should(HaveField("Data", HaveKeyWithValue("word", []byte("goodbye"))))
	g.Expect(to.OwnerReferences).To(HaveLen(1))
}
