package furnish

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

func namespaced(uid string) *corev1.Pod {
	pod := subject()
	pod.UID, pod.Spec.HostUsers = types.UID(uid), new(false)
	return pod
}

// firstUser returns the first user of a pod's namespace.
func firstUser(t *testing.T, f *Furnisher, pod *corev1.Pod) uint32 {
	t.Helper()
	spec := &container.SandboxSpec{Pod: pod}
	if err := f.Sandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if spec.Users == nil || spec.Users.Length != 1<<16 {
		t.Fatalf("the pod's users are %+v", spec.Users)
	}
	return spec.Users.First
}

// inRoot returns a Furnisher of a machine that sets these users and groups aside.
func inRoot(t *testing.T, root, users, groups string) *Furnisher {
	t.Helper()
	f := New(Options{Root: root})
	f.subUsers, f.subGroups = filepath.Join(root, "subuid"), filepath.Join(root, "subgid")
	if err := errors.Join(os.WriteFile(f.subUsers, []byte(users), 0o600), os.WriteFile(f.subGroups, []byte(groups), 0o600)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNoTwoPodsHaveTheSameUsers(t *testing.T) {
	f := inRoot(t, t.TempDir(), "", "")
	seen := map[uint32]bool{}
	for i := range 5 {
		first := firstUser(t, f, namespaced(fmt.Sprint("uid", i)))
		if seen[first] || first == 0 || first%(1<<16) != 0 {
			t.Errorf("pod %d has the users from %d on", i, first)
		}
		seen[first] = true
	}
	spec := &container.SandboxSpec{Pod: subject()}
	if err := f.Sandbox(t.Context(), spec); err != nil || spec.Users != nil {
		t.Errorf("a pod with the machine's users has %+v, %v", spec.Users, err)
	}
}

func TestAPodKeepsItsUsersWhileItIsThere(t *testing.T) {
	root := t.TempDir()
	f := inRoot(t, root, "", "")
	one, two := firstUser(t, f, namespaced("one")), firstUser(t, f, namespaced("two"))
	if err := f.Release(t.Context(), worker.Key{}, "one"); err != nil {
		t.Fatal(err)
	}
	again := inRoot(t, root, "", "") // the kubelet has started again
	if got := firstUser(t, again, namespaced("two")); got != two {
		t.Errorf("the pod had the users from %d on, and has those from %d on", two, got)
	}
	if got := firstUser(t, again, namespaced("three")); got == one {
		t.Error("users of a pod whose processes may still be there were given to another")
	}
	if err := again.Sweep(t.Context(), func(uid string) bool { return uid != "one" }); err != nil {
		t.Fatal(err)
	}
	if got := firstUser(t, again, namespaced("four")); got != one {
		t.Errorf("users of a pod that is gone are not given to others: got %d, want %d", got, one)
	}
}

func TestPodsHaveNoUsersThatTheMachineHasSetAsideForOthers(t *testing.T) {
	for _, test := range []struct {
		name, users, groups string
		want                uint32 // 0: none
	}{
		{"nothing is set aside", "", "", 1 << 16},
		{"somebody has some", "alice:100000:65536\n", "bob:200000:65536", 5 << 16},
		{"the kubelet has some", "alice:100000:65536\nkubelet:262144:131072\n", "kubelet:262144:131072", 4 << 16},
		{"the kubelet has others as groups", "kubelet:262144:131072", "kubelet:131072:131072", 0},
		{"the kubelet's begin anywhere", "kubelet:100000:131072", "kubelet:100000:131072", 0},
		{"the kubelet's are too few", "kubelet:262144:65535", "kubelet:262144:65535", 0},
		{"no numbers", "kubelet:x:y", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := inRoot(t, t.TempDir(), test.users, test.groups)
			spec := &container.SandboxSpec{Pod: namespaced("uid")}
			err := f.Sandbox(t.Context(), spec)
			if (err != nil) != (test.want == 0) || err == nil && spec.Users.First != test.want {
				t.Errorf("got %+v, %v", spec.Users, err)
			}
		})
	}
}

func TestWhereAPodsUsersCannotBeReadNobodyGetsAny(t *testing.T) {
	for _, text := range []string{"", "{}", `{"uidMappings":[{"hostId":0,"containerId":0,"length":65536}],"gidMappings":[{"hostId":0,"containerId":0,"length":65536}]}`} {
		f := inRoot(t, t.TempDir(), "", "")
		firstUser(t, f, namespaced("one"))
		if err := os.WriteFile(filepath.Join(f.podDirectory("one"), usersFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Sandbox(t.Context(), &container.SandboxSpec{Pod: namespaced("two")}); err == nil {
			t.Errorf("with %q users were given", text)
		}
	}
}

func TestAPodRunsInTheWayThatItsRuntimeClassNames(t *testing.T) {
	f := New(Options{Root: t.TempDir(), Kube: fake.NewClientset(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "safe"}, Handler: "walled"})})
	pod := subject()
	spec := &container.SandboxSpec{Pod: pod}
	pod.Spec.RuntimeClassName = new("safe")
	if err := f.Sandbox(t.Context(), spec); err != nil || spec.Handler != "walled" {
		t.Errorf("the handler is %q, %v", spec.Handler, err)
	}
	pod.Spec.RuntimeClassName = new("missing")
	if err := f.Sandbox(t.Context(), spec); err == nil || !strings.Contains(err.Error(), `"missing" not found`) {
		t.Errorf("with a class that is missing: %v", err)
	}
	if err := New(Options{Root: t.TempDir()}).Sandbox(t.Context(), spec); !errors.Is(err, ErrNoServer) {
		t.Errorf("without an API server: %v", err)
	}
}
