package furnish

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodsUseTheResolverOfTheFileThatIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	f := New(Options{Root: t.TempDir(), Resolver: file, ClusterDNS: []string{"10.96.0.10"}})
	pod := func(policy corev1.DNSPolicy) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: policy}}
		p.Namespace = "a"
		return p
	}
	if _, err := f.resolver(pod(corev1.DNSDefault)); err == nil {
		t.Error("a file that is not there was read")
	}
	text := "# ours\nnameserver 192.0.2.1\nnameserver 192.0.2.2 \nsearch old.example\nsearch a.example b.example\noptions ndots:2 rotate\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own := pod(corev1.DNSDefault)
	own.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.3"}}
	for want, p := range map[string]*corev1.Pod{
		"{[192.0.2.1 192.0.2.2] [a.example b.example] [ndots:2 rotate]}":                 pod(corev1.DNSDefault),
		"{[192.0.2.1 192.0.2.2 192.0.2.3] [a.example b.example] [ndots:2 rotate]}":       own,
		"{[10.96.0.10] [a.svc.cluster.local svc.cluster.local cluster.local] [ndots:5]}": pod(corev1.DNSClusterFirst),
		"{[] [] []}": pod(corev1.DNSNone),
	} {
		got, err := f.resolver(p)
		if err != nil || fmt.Sprint(*got) != want {
			t.Errorf("the resolver is %v, %v, want %s", got, err, want)
		}
	}
}
