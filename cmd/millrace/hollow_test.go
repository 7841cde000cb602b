package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/cmd/millrace/internal/kubelet"
)

func TestHollowNodesAreNodesAndNotTheUserOfTheKubeconfig(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	rules := `{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata, verbs: [create, update, patch], resources: [{group: ""}, {group: coordination.k8s.io}]}]}`
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	server := begin(t, "apiserver", "--storage-backend=memory", "--bind-address=127.0.0.1", "--secure-port=0", "--audit-policy-file="+policy, "--audit-log-path="+log)
	path := server.kubeconfig(t)
	nodes := begin(t, "kubelet", "--kubeconfig="+path, "--nodes=2")
	go io.Copy(io.Discard, nodes.out)
	w, err := connect(t, path).CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := map[string]bool{}
	for e := range w.ResultChan() {
		n := e.Object.(*corev1.Node)
		for _, c := range n.Status.Conditions {
			ready[n.Name] = ready[n.Name] || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		if ready["hollow-0"] && ready["hollow-1"] {
			break
		}
	}
	w.Stop()
	for _, p := range []*running{nodes, server} {
		p.end()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var event struct {
			UserAgent        string
			ImpersonatedUser struct{ Username string }
			ObjectRef        struct{ Resource, Name string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		node := event.ObjectRef.Resource == "nodes" || event.ObjectRef.Resource == "leases"
		if !node || !strings.Contains(event.UserAgent, "kubelet") {
			continue
		}
		user := event.ImpersonatedUser.Username
		if seen[user] = true; event.ObjectRef.Name != "" && user != kubelet.NodeUserPrefix+event.ObjectRef.Name {
			t.Errorf("%q writes the %s of %s", user, event.ObjectRef.Resource, event.ObjectRef.Name)
		}
	}
	for _, name := range []string{"hollow-0", "hollow-1"} {
		if !seen[kubelet.NodeUserPrefix+name] {
			t.Errorf("nothing was written as %s: %v", name, seen)
		}
	}
}
