package furnish

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

func TestVariablesExpand(t *testing.T) {
	known := map[string]string{"A": "1", "B": "two"}
	get := func(name string) (string, bool) { v, ok := known[name]; return v, ok }
	for text, want := range map[string]string{
		"plain": "plain", "$(A)": "1", "x$(A)$(B)y": "x1twoy", "$(C)": "$(C)", "$$(A)": "$(A)", "$": "$", "$A": "$A", "$(A": "$(A", "$$$(A)": "$1", "$()": "$()",
	} {
		if got := expand(text, get); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzExpandKeepsTextWithoutADollar(f *testing.F) {
	f.Add("a$(b)c$$")
	f.Fuzz(func(t *testing.T, text string) {
		got := expand(text, func(string) (string, bool) { return "", false })
		if !strings.Contains(text, "$") && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestASetOfFilesIsReplacedAtomically(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "volume")
	set := func(files map[string]string) {
		t.Helper()
		all := map[string]file{}
		for name, text := range files {
			all[name] = file{content: []byte(text), mode: 0o640}
		}
		if err := replace(directory, all, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(map[string]string{"a": "1", "b/c": "2"})
	first, err := os.Readlink(filepath.Join(directory, dataLink))
	if err != nil || read(t, filepath.Join(directory, "a")) != "1" || read(t, filepath.Join(directory, "b", "c")) != "2" {
		t.Fatalf("the first set is not there: %v", err)
	}
	if info, err := os.Stat(filepath.Join(directory, "a")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	set(map[string]string{"a": "1", "b/c": "2"})
	if again, _ := os.Readlink(filepath.Join(directory, dataLink)); again != first {
		t.Error("the same set was written again")
	}
	set(map[string]string{"a": "3"})
	if read(t, filepath.Join(directory, "a")) != "3" {
		t.Error("the second set is not there")
	}
	entries, _ := os.ReadDir(directory)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 3 { // the set, ..data and a
		t.Errorf("the directory has %q", names)
	}
	if err := replace(directory, map[string]file{"../out": {}}, nil); err == nil {
		t.Error("a file was written outside of the volume")
	}
}

func subject() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", Labels: map[string]string{"b": "2", "a": "1"}}}
}

// with returns a pod with a volume that its container mounts.
func with(v corev1.VolumeSource) *corev1.Pod {
	pod := subject()
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: v}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}}
	return pod
}

func specOf(pod *corev1.Pod, c *corev1.Container) *container.Spec {
	return &container.Spec{Pod: pod, Container: c, Sandbox: &container.SandboxSpec{Pod: pod}}
}

// running returns a Furnisher that runs until the test ends.
func running(t *testing.T, o Options) *Furnisher {
	t.Helper()
	o.SecretsOnDisk = true
	f := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestChangesOfConfigMapsReachThePodsThatUseThem(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"k": "old"}}
	kube := fake.NewClientset(cm)
	changed := make(chan worker.Key, 10)
	f := running(t, Options{Root: t.TempDir(), Kube: kube, Changed: func(key worker.Key) { changed <- key }})
	pod := with(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}})
	content := func() string {
		t.Helper()
		if err := f.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(f.volumeDirectory("u1", "v"), "k"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := content(); got != "old" {
		t.Errorf("at first it is %q", got)
	}
	next := cm.DeepCopy()
	next.Data["k"] = "new"
	if _, err := kube.CoreV1().ConfigMaps("default").Update(t.Context(), next, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if key := <-changed; key.Name != "web" {
		t.Errorf("told was %v", key)
	}
	if got := content(); got != "new" {
		t.Errorf("after the change it is %q", got)
	}
	if err := f.Release(t.Context(), worker.Key{}, "u1"); err != nil {
		t.Fatal(err)
	}
	f.objects.mu.Lock()
	defer f.objects.mu.Unlock()
	if len(f.objects.known) > 0 {
		t.Error("what no pod uses is still watched")
	}
}

func TestTheEnvironmentCombinesAllSources(t *testing.T) {
	kube := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"k": "v", "x y": "odd"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{"pw": []byte("secret")}},
	)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "my-db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.7", Ports: []corev1.ServicePort{{Name: "sql", Port: 5432, Protocol: corev1.ProtocolTCP}}}}
	f := running(t, Options{Root: t.TempDir(), Kube: kube, Addresses: []string{"192.0.2.1"}, Services: func(ns string) []*corev1.Service {
		if ns == "default" {
			return []*corev1.Service{service}
		}
		return nil
	}})
	yes := true
	c := &corev1.Container{
		Name: "main", Command: []string{"run", "$(WHO)"}, Args: []string{"--pw=$(PW)"},
		EnvFrom: []corev1.EnvFromSource{{Prefix: "CM_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}},
		Env: []corev1.EnvVar{
			{Name: "WHO", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "PW", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "pw"}}},
			{Name: "LABEL", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['a']"}}},
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "MAYBE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k", Optional: &yes}}},
			{Name: "URL", Value: "$(WHO):$(MY_DB_SERVICE_PORT_SQL)"},
		},
	}
	spec := specOf(subject(), c)
	if err := f.Prepare(t.Context(), spec.Pod); err != nil {
		t.Fatal(err)
	}
	if err := f.Furnish(t.Context(), spec, []string{"10.1.2.3"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range spec.Env {
		got[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"CM_k": "v", "WHO": "web", "PW": "secret", "LABEL": "1", "IP": "10.1.2.3", "URL": "web:5432", "MY_DB_SERVICE_HOST": "10.0.0.7", "MY_DB_PORT": "tcp://10.0.0.7:5432",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if _, ok := got["MAYBE"]; ok {
		t.Error("an optional variable that is missing is there")
	}
	if spec.Command[1] != "web" || spec.Args[0] != "--pw=secret" {
		t.Errorf("the command is %q %q", spec.Command, spec.Args)
	}
}

func TestAPodWithAMissingRequiredObjectDoesNotStart(t *testing.T) {
	f := running(t, Options{Root: t.TempDir(), Kube: fake.NewClientset()})
	pod := with(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}})
	if err := f.Prepare(t.Context(), pod); err == nil || !strings.Contains(err.Error(), `configmap "none" not found`) {
		t.Errorf("without its config map the pod is prepared: %v", err)
	}
	c := &corev1.Container{Name: "main", Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k"}}}}}
	if err := f.Furnish(t.Context(), specOf(subject(), c), nil); err == nil || !strings.Contains(err.Error(), `secret "none" not found`) {
		t.Errorf("without its secret the container is furnished: %v", err)
	}
	root := int64(0)
	yes := true
	c = &corev1.Container{Name: "main", SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &root}}
	if err := f.Furnish(t.Context(), specOf(subject(), c), nil); err == nil || !strings.Contains(err.Error(), "breaks non-root policy") {
		t.Errorf("root is let in: %v", err)
	}
	pod.Spec.Containers[0].VolumeMounts = nil
	if err := f.Prepare(t.Context(), pod); err != nil {
		t.Errorf("a volume that no container uses keeps the pod from starting: %v", err)
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "look", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
	}}}
	if err := f.Prepare(t.Context(), pod); err == nil {
		t.Error("the volume of an ephemeral container is not made ready")
	}
}

func TestTokensAreRenewedInTime(t *testing.T) {
	now := time.Now()
	i := issued{at: now, expiry: now.Add(time.Hour)}
	if i.stale(now.Add(47*time.Minute)) || !i.stale(now.Add(49*time.Minute)) {
		t.Error("a token of an hour is not renewed after 48 minutes")
	}
	i.expiry = now.Add(1000 * time.Hour)
	if !i.stale(now.Add(25 * time.Hour)) {
		t.Error("a token that is good for long is not renewed after a day")
	}
}

func TestPullSecretsFitTheirRegistry(t *testing.T) {
	for _, test := range []struct {
		server, image string
		fits          bool
	}{
		{"https://index.docker.io/v1/", "nginx", true}, {"reg.example", "reg.example/a/b:1", true}, {"reg.example/a", "reg.example/a/b:1", true},
		{"reg.example/x", "reg.example/a/b:1", false}, {"reg.example", "other.example/a", false}, {"reg", "registry.example/a", false},
	} {
		if got := fits(test.server, test.image); got != test.fits {
			t.Errorf("%s for %s: %v", test.server, test.image, got)
		}
	}
}

func TestATokenIsForTheUserOfTheContainers(t *testing.T) {
	user, group, other := int64(1000), int64(10000), int64(1001)
	as := func(u *int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: u} }
	for name, c := range map[string]struct {
		pod   corev1.PodSecurityContext
		init  *corev1.SecurityContext
		main  *corev1.SecurityContext
		owner *int64
		mode  os.FileMode
	}{
		"nobody":                {mode: 0o644},
		"the pod's user":        {pod: corev1.PodSecurityContext{RunAsUser: &user}, owner: &user, mode: 0o600},
		"a group":               {pod: corev1.PodSecurityContext{FSGroup: &group}, mode: 0o600},
		"both":                  {pod: corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &group}, owner: &user, mode: 0o600},
		"each container's":      {init: as(&user), main: as(&user), owner: &user, mode: 0o600},
		"one container's alone": {main: as(&user), mode: 0o644},
		"different ones":        {pod: corev1.PodSecurityContext{RunAsUser: &user}, main: as(&other), mode: 0o644},
		"one that all replace":  {pod: corev1.PodSecurityContext{RunAsUser: &user}, init: as(&other), main: as(&other), owner: &other, mode: 0o600},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			SecurityContext: &c.pod, InitContainers: []corev1.Container{{SecurityContext: c.init}}, Containers: []corev1.Container{{SecurityContext: c.main}},
		}}
		f := ownFile(pod, []byte("token"), nil)
		if f.mode != c.mode || !ptr.Equal(f.owner, c.owner) {
			t.Errorf("%s: the mode is %o, the owner %d", name, f.mode, ptr.Deref(f.owner, -1))
		}
	}
}
