package envtest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/envtest"
)

// start starts an environment that ends with the test.
func start(t testing.TB, env *envtest.Environment) *kubernetes.Clientset {
	t.Helper()
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return kubernetes.NewForConfigOrDie(config)
}

var ships = schema.GroupVersionResource{Group: "sea.example.com", Version: "v1", Resource: "ships"}

func ship(name string, crew int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sea.example.com/v1", "kind": "Ship", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"crew": crew},
	}}
}

func TestDefinitionsOfADirectoryAreServedWhenStartReturns(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}, ErrorIfCRDPathMissing: true}
	start(t, env)
	if len(env.CRDs) != 1 || env.CRDs[0].Name != "ships.sea.example.com" {
		t.Errorf("installed are %v", env.CRDs)
	}
	client := dynamic.NewForConfigOrDie(env.Config).Resource(ships).Namespace("default")
	if _, err := client.Create(t.Context(), ship("argo", 50), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.Create(t.Context(), ship("ghost", 0), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a ship without a crew: %v", err)
	}
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: env.CRDs}); err != nil {
		t.Errorf("install again: %v", err)
	}
	if err := envtest.UninstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: env.CRDs}); err != nil {
		t.Errorf("uninstall: %v", err)
	}
}

func TestAPathWithoutAFileIsAnErrorIfItIsToBe(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/nowhere"}, ErrorIfCRDPathMissing: true}
	if _, err := env.Start(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start: %v", err)
	}
	start(t, &envtest.Environment{CRDDirectoryPaths: []string{"testdata/nowhere"}})
}

func TestUsersMayWhatTheirRolesAllow(t *testing.T) {
	env := &envtest.Environment{}
	kube := start(t, env)
	user, err := env.AddUser(envtest.User{Name: "ada", Groups: []string{"readers"}}, &rest.Config{QPS: 50})
	if err != nil {
		t.Fatal(err)
	}
	if user.Config().QPS != 50 {
		t.Errorf("the base of the config is gone: %v", user.Config())
	}
	file, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	own := kubernetes.NewForConfigOrDie(config)
	list := func() error {
		_, err := own.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: %v", err)
	}
	_, err = kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "look"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "look"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := list(); err != nil {
		t.Errorf("with a role: %v", err)
	}
}

// deleted deletes a namespace with a config map in it, and tells whether both are gone after a minute.
func deleted(t *testing.T, loops envtest.Loops) bool {
	gone := false
	synctest.Test(t, func(t *testing.T) {
		kube := start(t, &envtest.Environment{Virtual: true, Loops: loops})
		_, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{})
		if err == nil {
			_, err = kube.CoreV1().ConfigMaps("work").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
		}
		if err == nil {
			err = kube.CoreV1().Namespaces().Delete(t.Context(), "work", metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		_, err = kube.CoreV1().Namespaces().Get(t.Context(), "work", metav1.GetOptions{})
		gone = apierrors.IsNotFound(err)
	})
	return gone
}

func TestLoopsAreOffUnlessTheyAreTurnedOn(t *testing.T) {
	for _, test := range []struct {
		loops envtest.Loops
		goes  bool
	}{
		{envtest.Loops{}, false},
		{envtest.Loops{GarbageCollection: true}, false},
		{envtest.Loops{NamespaceDeletion: true}, true},
		{envtest.Loops{Controllers: []string{"namespace-controller"}}, true},
		{envtest.Loops{All: true}, true},
	} {
		if deleted(t, test.loops) != test.goes {
			t.Errorf("with %+v a namespace goes: %v", test.loops, !test.goes)
		}
	}
}

func TestAPodNeedsNoAccountAndRunsOnlyWithANode(t *testing.T) {
	for _, test := range []struct {
		loops envtest.Loops
		phase corev1.PodPhase
	}{{envtest.Loops{}, corev1.PodPending}, {envtest.Loops{Scheduler: true, Nodes: 1}, corev1.PodRunning}} {
		synctest.Test(t, func(t *testing.T) {
			pods := start(t, &envtest.Environment{Virtual: true, Loops: test.loops}).CoreV1().Pods("default")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
			if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			pod, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || pod.Status.Phase != test.phase {
				t.Errorf("with %+v: %v, %v, %v", test.loops, pod.Status.Phase, pod.Status.Conditions, err)
			}
		})
	}
}

func TestUsersWithoutAPortAreThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := &envtest.Environment{Virtual: true}
		start(t, env)
		user, err := env.AddUser(envtest.User{Name: "ada"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = kubernetes.NewForConfigOrDie(user.Config()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"ada"`) {
			t.Errorf("she may: %v", err)
		}
	})
}

func TestWhatCannotBeVirtualIsSaidAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := (&envtest.Environment{}).Start(); err == nil || !strings.Contains(err.Error(), "a port of this machine") {
			t.Errorf("a port: %v", err)
		}
		hooks := envtest.WebhookInstallOptions{Paths: []string{"testdata/webhooks"}}
		if _, err := (&envtest.Environment{Virtual: true, WebhookInstallOptions: hooks}).Start(); err == nil || !strings.Contains(err.Error(), "webhooks cannot be virtual") {
			t.Errorf("webhooks: %v", err)
		}
	})
}

func TestAnExistingClusterIsUsedAndLeftRunning(t *testing.T) {
	kube := start(t, &envtest.Environment{})
	first := &envtest.Environment{}
	start(t, first)
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	guest := &envtest.Environment{Config: first.Config, CRDInstallOptions: envtest.CRDInstallOptions{Paths: []string{"testdata/crd"}, CleanUpAfterUse: true}}
	if _, err := guest.Start(); err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(first.Config).Resource(ships)
	if _, err := client.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if err := guest.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := kube.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("after its guest has gone: %v", err)
	}
	t.Setenv("USE_EXISTING_CLUSTER", "")
}

func TestAStoppedEnvironmentStartsAgainAndIsEmpty(t *testing.T) {
	env := &envtest.Environment{}
	for range 2 {
		config, err := env.Start()
		if err != nil {
			t.Fatal(err)
		}
		maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		directory := env.WebhookInstallOptions.LocalServingCertDir
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(directory); !os.IsNotExist(err) {
			t.Errorf("the directory %s is left: %v", directory, err)
		}
	}
}
