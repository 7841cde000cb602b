package loops_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
)

// pair are two processes of one control plane component: one leads and the other waits.
type pair struct {
	*world
	args            []string
	lease           string
	holder          string
	leader, standby *exec.Cmd
}

// pair starts a component twice. The first one becomes the leader.
func (w *world) pair(kubeconfig, part, lease string) *pair {
	w.Helper()
	p := &pair{world: w, lease: lease, args: []string{
		part, "--kubeconfig", kubeconfig, "--secure-port", "0", "--leader-elect", "--leader-elect-lease-duration", "6s", "--leader-elect-renew-deadline", "5s", "--leader-elect-retry-period", "200ms",
	}}
	p.leader = spawn(w, p.args...)
	w.Cleanup(func() {
		for _, process := range []*exec.Cmd{p.leader, p.standby} {
			if process != nil {
				kill(w, process)
			}
		}
	})
	p.lead()
	p.standby = spawn(w, p.args...)
	return p
}

// lead waits until another process holds the lease.
func (p *pair) lead() {
	p.Helper()
	p.eventually("somebody new holds "+p.lease, func() error {
		l, err := p.kube.CoordinationV1().Leases("kube-system").Get(p.Context(), p.lease, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "":
			return errors.New("nobody does")
		case *l.Spec.HolderIdentity == p.holder:
			return fmt.Errorf("%s does, which is dead", p.holder)
		}
		p.holder = *l.Spec.HolderIdentity
		return nil
	})
}

// takeOver kills the leader with SIGKILL, calls meanwhile while there is no leader, waits until the other process
// leads, and starts a third process that waits.
func (p *pair) takeOver(meanwhile func()) {
	p.Helper()
	kill(p, p.leader)
	p.leader, p.standby = p.standby, nil
	meanwhile()
	p.lead()
	p.standby = spawn(p, p.args...)
}

func TestKillingLeadersDoesNothingTwice(t *testing.T) {
	t.Parallel()
	w := bare(t, millrace.Options{Controllers: []string{}, Nodes: 4})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.ok(w.cluster.WriteKubeconfig(kubeconfig))
	controllers, scheduler := w.pair(kubeconfig, "controllers", "kube-controller-manager"), w.pair(kubeconfig, "scheduler", "kube-scheduler")
	w.ns = w.namespace()
	web, sums := w.watch("app=web"), w.watch("job-name=sum")
	w.deploy(deployment("web", 150))
	w.submit(job("sum", 4, 40, 0))
	w.eventually("the work is half done", func() error { return w.atLeast("app=web", 20) })

	controllers.takeOver(func() { w.patch("web", scaled(180)) })
	w.eventually("the next leader goes on", func() error { return w.atLeast("app=web", 155) })
	scheduler.takeOver(func() { w.patch("web", scaled(190)) })
	controllers.takeOver(func() {})

	w.rolledOut("web")
	if created, deleted := web.totals(); created != 190 || deleted != 0 {
		t.Errorf("%d pods of the deployment were made and %d deleted, want 190 and 0", created, deleted)
	}
	if j := w.ended("sum", batchv1.JobComplete); j.Status.Succeeded != 40 {
		t.Errorf("the job has %d completions, want 40", j.Status.Succeeded)
	}
	if created, _ := sums.totals(); created != 40 {
		t.Errorf("the job made %d pods, want 40", created)
	}
}

// atLeast returns nil if there are at least n pods.
func (w *world) atLeast(selector string, n int) error {
	if have := len(w.pods(selector)); have < n {
		return fmt.Errorf("%d pods", have)
	}
	return nil
}
