package loops_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/controllers"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/scheduler"
)

// What a candidate, which is this binary run again, reads from its environment.
const (
	candidateConfig = "MILLRACE_CANDIDATE_KUBECONFIG"
	candidateName   = "MILLRACE_CANDIDATE_NAME"
)

const (
	controllersLease = "kube-controller-manager"
	schedulerLease   = "kube-scheduler"
)

// beCandidate runs all loops, if it leads, until it is killed or the test has ended.
func beCandidate(kubeconfig string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if err := lead(kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(candidateName), err)
		os.Exit(1)
	}
}

func lead(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	clients, err := loop.NewClients(config, nil)
	if err != nil {
		return err
	}
	election := func(lease string) loop.Election {
		return loop.Election{
			Lease: loop.Key{Namespace: "kube-system", Name: lease}, Identity: os.Getenv(candidateName),
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		}
	}
	forControllers := election(controllersLease)
	group := &loop.Group{Clients: clients, Entries: controllers.All(controllers.Options{}), Election: &forControllers}
	placing := loop.Elected(clients, election(schedulerLease), scheduler.New(scheduler.For(clients)))
	return loop.Run(context.Background(), clients, group, placing)
}

// candidates are processes that run the loops, of which one leads.
type candidates struct {
	*world
	kubeconfig string
	count      int
	running    map[string]*exec.Cmd
}

func (w *world) candidates(n int) *candidates {
	w.Helper()
	c := &candidates{world: w, kubeconfig: filepath.Join(w.TempDir(), "kubeconfig"), running: map[string]*exec.Cmd{}}
	w.ok(w.cluster.WriteKubeconfig(c.kubeconfig))
	w.Cleanup(func() {
		for name := range c.running {
			c.kill(name)
		}
	})
	for range n {
		c.spawn()
	}
	return c
}

func (c *candidates) spawn() {
	c.Helper()
	c.count++
	name := fmt.Sprint("candidate-", c.count)
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), candidateConfig+"="+c.kubeconfig, candidateName+"="+name)
	process.Stderr = os.Stderr
	must(process.StdinPipe())(c) // it closes when this process ends, however it ends
	c.ok(process.Start())
	c.running[name] = process
}

// kill ends a process without warning.
func (c *candidates) kill(name string) {
	c.Helper()
	process := c.running[name]
	delete(c.running, name)
	if err := process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.Errorf("kill %s: %v", name, err)
	}
	_ = process.Wait() // it was killed, and says so
}

// holder is who holds a lease now.
func (c *candidates) holder(lease string) (string, error) {
	l, err := c.kube.CoordinationV1().Leases("kube-system").Get(c.Context(), lease, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return "", fmt.Errorf("nobody holds %s: %w", lease, err)
	}
	if c.running[*l.Spec.HolderIdentity] == nil {
		return "", fmt.Errorf("%s is held by %s, which is dead", lease, *l.Spec.HolderIdentity)
	}
	return *l.Spec.HolderIdentity, nil
}

// leader waits until one that lives holds a lease.
func (c *candidates) leader(lease string) (name string) {
	c.Helper()
	c.eventually("somebody alive holds "+lease, func() (err error) {
		name, err = c.holder(lease)
		return err
	})
	return name
}

func TestKillingLeadersDoesNothingTwice(t *testing.T) {
	t.Parallel()
	w := bare(t, millrace.Options{Controllers: []string{}, Nodes: 4})
	c := w.candidates(2)
	w.ns = w.namespace()
	web, sums := w.watch("app=web"), w.watch("job-name=sum")
	w.deploy(deployment("web", 150))
	w.submit(job("sum", 4, 40, 0))
	w.eventually("the work is half done", func() error { return w.atLeast("app=web", 20) })

	c.kill(c.leader(controllersLease))
	w.patch("web", scaled(180)) // while nobody leads
	c.spawn()
	c.leader(controllersLease)
	w.eventually("the next leader goes on", func() error { return w.atLeast("app=web", 155) })
	c.kill(c.leader(schedulerLease))
	c.spawn()

	w.rolledOut("web")
	if created, deleted := web.ever(); created != 180 || deleted != 0 {
		t.Errorf("%d pods of the deployment were made and %d deleted, want 180 and 0", created, deleted)
	}
	if j := w.ended("sum", batchv1.JobComplete); j.Status.Succeeded != 40 {
		t.Errorf("the job has %d completions, want 40", j.Status.Succeeded)
	}
	if created, _ := sums.ever(); created != 40 {
		t.Errorf("the job made %d pods, want 40", created)
	}
}

// atLeast is nil once there are at least n pods.
func (w *world) atLeast(selector string, n int) error {
	if have := len(w.pods(selector)); have < n {
		return fmt.Errorf("%d pods", have)
	}
	return nil
}
