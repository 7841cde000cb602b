package loops_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// profilesVariable names a directory for profiles of BenchmarkDeployment.
const profilesVariable = "MILLRACE_PROFILES"

// BenchmarkDeployment creates deployments on ready hollow nodes of `millrace up`. It measures how fast all pods are
// created, bound and ready, the CPU time, and the memory of the process, which is the whole cluster and nothing else.
// Run it with -benchtime=1x.
func BenchmarkDeployment(b *testing.B) {
	for _, size := range []struct{ nodes, deployments int }{{100, 1}, {1000, 1}, {1000, 6}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.deployments*replicas), func(b *testing.B) {
			for b.Loop() {
				deployAll(b, size.nodes, size.deployments)
			}
		})
	}
}

// replicas is the number of replicas of each deployment.
const replicas = 5000

func deployAll(b *testing.B, nodes, deployments int) {
	s := startScale(b, nodes)
	defer s.end()
	b.ReportMetric(s.mebibytes("VmRSS"), "MiB-before")
	var profiling sync.WaitGroup
	profiling.Go(func() { s.profile(b, "profile?seconds="+strconv.Itoa(4*deployments), "cpu") })
	defer profiling.Wait()
	before, begun := s.cpuTime(), time.Now()
	for i := range deployments {
		d := deployment(fmt.Sprint("web-", i), replicas)
		d.Spec.Template.Annotations = nil // the annotations would delay containers; without them they start at once
		if _, err := s.kube.AppsV1().Deployments("default").Create(b.Context(), d, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	pods := deployments * replicas
	rate := func(unit string) { b.ReportMetric(float64(pods)/time.Since(begun).Seconds(), unit) }
	s.await("all are made", func(ctx context.Context) bool { return s.count(ctx, made) == pods })
	rate("made/s")
	s.await("all are bound", s.allBound)
	rate("bound/s")
	b.ReportMetric((s.cpuTime()-before).Seconds()*1e3/float64(pods), "cpu-ms/bound")
	s.await("all are ready", func(ctx context.Context) bool { return s.count(ctx, readied) == pods })
	rate("ready/s")
	b.ReportMetric((s.cpuTime()-before).Seconds()*1e3/float64(pods), "cpu-ms/ready")
	b.ReportMetric(s.mebibytes("VmHWM"), "MiB-peak")
	profiling.Wait()
	time.Sleep(5 * time.Second) // the memory of a burst is released some time after it
	b.ReportMetric(s.mebibytes("VmRSS"), "MiB-after")
	s.profile(b, "heap", "heap")
	s.profile(b, "allocs", "allocs")
	s.profile(b, "goroutine", "goroutine")
}

// scale is a running command that is polled rarely: watching the pods would cost as much as a loop.
type scale struct {
	*testing.B
	kubeconfig string
	pid        int
	loops      []int // the processes of loops that run elsewhere
	end        func()
	http       *http.Client
	host       string
	kube       *kubernetes.Clientset
}

// startScale returns when all nodes are ready.
func startScale(b *testing.B, nodes int) *scale {
	b.Helper()
	s := openScale(b, nodes)
	s.ready(nodes)
	return s
}

// openScale returns when the API answers. More flags may say that loops run elsewhere.
func openScale(b *testing.B, nodes int, more ...string) *scale {
	b.Helper()
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	process := spawn(b, append([]string{
		"up", "--data", "memory", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, "--nodes", strconv.Itoa(nodes),
	}, more...)...)
	s := &scale{B: b, kubeconfig: kubeconfig, pid: process.Process.Pid, end: sync.OnceFunc(func() { kill(b, process) })}
	b.Cleanup(s.end)
	var config *rest.Config
	s.await("there is a kubeconfig", func(context.Context) (ok bool) {
		var err error
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
		return err == nil
	})
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	var err error
	if s.http, err = rest.HTTPClientFor(config); err != nil {
		b.Fatal(err)
	}
	if s.kube, err = kubernetes.NewForConfigAndClient(config, s.http); err != nil {
		b.Fatal(err)
	}
	s.host = config.Host
	return s
}

// ready waits until all nodes are ready.
func (s *scale) ready(nodes int) {
	s.Helper()
	s.await("all nodes are ready", func(ctx context.Context) bool {
		list, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == nodes && !anyTainted(list.Items)
	})
}

// anyTainted reports whether a node is not ready yet.
func anyTainted(nodes []corev1.Node) bool {
	for i := range nodes {
		if len(nodes[i].Spec.Taints) > 0 {
			return true
		}
	}
	return false
}

func (s *scale) await(what string, holds func(context.Context) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 15*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Fatalf("never: %s", what)
		}
	}
}

func made(s *appsv1.ReplicaSetStatus) int32    { return s.Replicas }
func readied(s *appsv1.ReplicaSetStatus) int32 { return s.ReadyReplicas }

func (s *scale) count(ctx context.Context, of func(*appsv1.ReplicaSetStatus) int32) (n int) {
	list, err := s.kube.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0
	}
	for i := range list.Items {
		n += int(of(&list.Items[i].Status))
	}
	return n
}

// allBound lists the pods without a node, which the server finds by an index.
func (s *scale) allBound(ctx context.Context) bool {
	list, err := s.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=", Limit: 1})
	return err == nil && len(list.Items) == 0
}

// profile writes a profile if one is requested.
func (s *scale) profile(b *testing.B, what, name string) {
	directory := os.Getenv(profilesVariable)
	if directory == "" {
		return
	}
	res, err := s.http.Get(s.host + "/debug/pprof/" + what)
	if err != nil {
		b.Error(err)
		return
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, name+".pprof"), content, 0o644)
	}
	if err != nil {
		b.Error(err)
	}
}

func (s *scale) mebibytes(line string) float64 { return mebibytes(s.pid, line) }

// mebibytes reads a line of /proc/PID/status; on other systems than Linux it returns 0.
func mebibytes(pid int, line string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), line+":")
	words := strings.Fields(after)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseFloat(words[0], 64)
	return n / 1024
}

func (s *scale) cpuTime() time.Duration { return cpuTime(s.pid) }

// cpuTime returns the CPU time of a process, with Linux' resolution of 10 ms; on other systems it returns 0.
func cpuTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	words := strings.Fields(after)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(words[11])
	system, _ := strconv.Atoi(words[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
