package loops_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// peersVariable names a directory with kube-controller-manager and kube-scheduler. With it BenchmarkDaemonSet and
// BenchmarkStatefulSet also run those, on the same server and hollow nodes of ours.
const peersVariable = "MILLRACE_PEERS"

// side is the loops and the scheduler of one maker, as programs of their own.
type side struct {
	name     string
	programs func(b *testing.B, kubeconfig, ca string) []*exec.Cmd
}

// sides are ours and, if they are there, Kubernetes'. Neither has a limit of requests that it reaches.
func sides() []side {
	all := []side{{"millrace", func(b *testing.B, kubeconfig, ca string) []*exec.Cmd {
		return []*exec.Cmd{
			spawn(b, "controllers", "--kubeconfig", kubeconfig, "--root-ca-file", ca, "--leader-elect=false", "--secure-port=0"),
			spawn(b, "scheduler", "--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0"),
		}
	}}}
	directory := os.Getenv(peersVariable)
	if directory == "" {
		return all
	}
	unlimited := []string{"--kube-api-qps=100000", "--kube-api-burst=100000", "--leader-elect=false", "--secure-port=0"}
	return append(all, side{"kubernetes", func(b *testing.B, kubeconfig, ca string) []*exec.Cmd {
		return []*exec.Cmd{
			run(b, filepath.Join(directory, "kube-controller-manager"), append(unlimited, "--kubeconfig", kubeconfig, "--root-ca-file", ca)...),
			run(b, filepath.Join(directory, "kube-scheduler"), append(unlimited, "--kubeconfig", kubeconfig)...),
		}
	}})
}

// eachSide runs a benchmark with the loops of each side, on a server of ours in memory and ready hollow nodes, which
// are a process of their own.
func eachSide(b *testing.B, nodes int, measure func(*scale)) {
	for _, of := range sides() {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				s := openScale(b, nodes, "--controllers", "", "--no-scheduler")
				config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
				if err != nil {
					b.Fatal(err)
				}
				ca := filepath.Join(b.TempDir(), "ca.crt")
				if err := os.WriteFile(ca, config.CAData, 0o600); err != nil {
					b.Fatal(err)
				}
				programs := of.programs(b, s.kubeconfig, ca)
				for _, p := range programs {
					s.loops = append(s.loops, p.Process.Pid)
				}
				s.ready(nodes)
				measure(s)
				for _, p := range programs {
					kill(b, p)
				}
				s.end()
			}
		})
	}
}

// result reports how long the loops took for some pods, their CPU time and their memory.
func (s *scale) result(pods int, took, cpu time.Duration) {
	s.ReportMetric(float64(pods)/took.Seconds(), "ready/s")
	s.ReportMetric(cpu.Seconds()*1e3/float64(pods), "loops-cpu-ms/pod")
	peak := 0.0
	for _, pid := range s.loops {
		peak += mebibytes(pid, "VmHWM")
	}
	s.ReportMetric(peak, "loops-MiB-peak")
}

func (s *scale) loopsTime() (all time.Duration) {
	for _, pid := range s.loops {
		all += cpuTime(pid)
	}
	return all
}

func podsOf(name string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/" + name + ":1"}}
	return &metav1.LabelSelector{MatchLabels: labels}, template
}

// BenchmarkDaemonSet makes a DaemonSet on 5,000 hollow nodes, and measures until all its pods are ready. Run it with
// -benchtime=1x.
func BenchmarkDaemonSet(b *testing.B) {
	const nodes = 5000
	eachSide(b, nodes, func(s *scale) {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
		d.Spec.Selector, d.Spec.Template = podsOf("agent")
		before, begun := s.loopsTime(), time.Now()
		if _, err := s.kube.AppsV1().DaemonSets("default").Create(s.Context(), d, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		s.await("all pods are ready", func(ctx context.Context) bool {
			d, err := s.kube.AppsV1().DaemonSets("default").Get(ctx, "agent", metav1.GetOptions{})
			return err == nil && d.Status.NumberReady == nodes
		})
		s.result(nodes, time.Since(begun), s.loopsTime()-before)
	})
}

// BenchmarkStatefulSet makes a StatefulSet of 500 whose pods start one after the other, on 100 hollow nodes, and
// measures until all are ready. Run it with -benchtime=1x.
func BenchmarkStatefulSet(b *testing.B) {
	const pods = 500
	eachSide(b, 100, func(s *scale) {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
		set.Spec.Selector, set.Spec.Template = podsOf("db")
		set.Spec.ServiceName, set.Spec.Replicas = "db", new(int32(pods))
		before, begun := s.loopsTime(), time.Now()
		if _, err := s.kube.AppsV1().StatefulSets("default").Create(s.Context(), set, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		s.await("all pods are ready", func(ctx context.Context) bool {
			set, err := s.kube.AppsV1().StatefulSets("default").Get(ctx, "db", metav1.GetOptions{})
			return err == nil && set.Status.ReadyReplicas == pods
		})
		s.result(pods, time.Since(begun), s.loopsTime()-before)
	})
}

// BenchmarkIdle measures how much of a core `millrace up` needs with 1,000 hollow nodes and 10,000 pods when nothing
// happens. Run it with -benchtime=1x; it takes two minutes and some.
func BenchmarkIdle(b *testing.B) {
	const nodes, deployments, rest = 1000, 2, time.Minute
	for b.Loop() {
		s := startScale(b, nodes)
		for i := range deployments {
			d := deployment(fmt.Sprint("web-", i), replicas)
			d.Spec.Template.Annotations = nil
			if _, err := s.kube.AppsV1().Deployments("default").Create(b.Context(), d, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		s.await("all are ready", func(ctx context.Context) bool { return s.count(ctx, readied) == deployments*replicas })
		time.Sleep(rest) // the last statuses and events are written
		before := cpuTime(s.pid)
		time.Sleep(rest)
		b.ReportMetric((cpuTime(s.pid)-before).Seconds()/rest.Seconds()*100, "%-of-a-core")
		b.ReportMetric(mebibytes(s.pid, "VmRSS"), "MiB")
		s.end()
	}
}
