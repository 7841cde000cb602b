package job_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/job"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestJobRunsToItsCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.job(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = ptr(7), ptr(3) })
		if most := c.most(); most > 3 {
			t.Errorf("%d pods at a time", most)
		}
		j := c.expect(batchv1.JobComplete, "CompletionsReached")
		if j.Status.Succeeded != 7 || j.Status.Active != 0 || j.Status.CompletionTime == nil {
			t.Errorf("status %+v", j.Status)
		}
		for _, pod := range c.pods() {
			if len(pod.Finalizers) != 0 {
				t.Error("a pod is still tracked")
			}
		}
	})
}

func TestFailedPodsAreReplacedWithGrowingDelaysUntilTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(*corev1.Pod) int32 { return 1 }
		began := time.Now()
		c.job(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr(3) })
		j := c.expect(batchv1.JobFailed, "BackoffLimitExceeded")
		if j.Status.Failed != 4 {
			t.Errorf("%d failures", j.Status.Failed)
		}
		condition := j.Status.Conditions[len(j.Status.Conditions)-1]
		if took := condition.LastTransitionTime.Sub(began); took < 70*time.Second || took > 90*time.Second {
			t.Errorf("three pauses took %s", took)
		}
	})
}

func TestIndexedJobGivesEachIndexOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		failed := map[string]bool{}
		c.outcome = func(p *corev1.Pod) int32 {
			index := p.Annotations[batchv1.JobCompletionIndexAnnotation]
			if index == "2" && !failed[index] {
				failed[index] = true
				return 1
			}
			return 0
		}
		c.job(indexed(5, 5))
		j := c.expect(batchv1.JobComplete, "CompletionsReached")
		if j.Status.CompletedIndexes != "0-4" || j.Status.Succeeded != 5 || j.Status.Failed != 1 {
			t.Errorf("status %+v", j.Status)
		}
		pod := c.pods()[0]
		index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
		env := pod.Spec.Containers[0].Env
		if pod.Labels[batchv1.JobCompletionIndexAnnotation] != index || pod.Spec.Hostname != "work-"+index || len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" {
			t.Errorf("pod %+v", pod)
		}
	})
}

func TestIndexesFailOnTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(p *corev1.Pod) int32 {
			if p.Annotations[batchv1.JobCompletionIndexAnnotation] == "1" {
				return 1
			}
			return 0
		}
		c.job(func(j *batchv1.Job) { indexed(4, 2)(j); j.Spec.BackoffLimitPerIndex = ptr(2) })
		j := c.expect(batchv1.JobFailed, "FailedIndexes")
		if j.Status.CompletedIndexes != "0,2,3" || *j.Status.FailedIndexes != "1" || j.Status.Failed != 3 {
			t.Errorf("status %+v", j.Status)
		}
	})
}

func TestFailuresOfAllIndexesCountForTheLimitOfTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(*corev1.Pod) int32 { return 1 }
		c.job(func(j *batchv1.Job) {
			indexed(2, 2)(j)
			j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = ptr(3), ptr(1)
		})
		j := c.expect(batchv1.JobFailed, "BackoffLimitExceeded")
		if j.Status.Failed != 2 || len(c.pods()) != 2 {
			t.Errorf("%d pods, status %+v", len(c.pods()), j.Status)
		}
	})
}

func TestASmallerJobLosesItsHighestIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(*corev1.Pod) int32 { return running }
		c.job(indexed(5, 5))
		before := map[string]types.UID{}
		for _, pod := range c.pods() {
			before[pod.Annotations[batchv1.JobCompletionIndexAnnotation]] = pod.UID
		}
		c.edit(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = ptr(2), ptr(2) })
		time.Sleep(time.Minute)
		left := 0
		for _, pod := range c.pods() {
			if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
				left++
				if index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]; index > "1" || pod.UID != before[index] {
					t.Errorf("pod %s of index %s is there", pod.Name, index)
				}
			}
		}
		if left != 2 {
			t.Errorf("%d pods are left", left)
		}
	})
}

func TestSuccessPolicyEndsTheJobEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(p *corev1.Pod) int32 {
			if p.Annotations[batchv1.JobCompletionIndexAnnotation] == "0" {
				return 0
			}
			return running
		}
		leader := "0"
		c.job(func(j *batchv1.Job) {
			indexed(4, 4)(j)
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: &leader}}}
		})
		j := c.expect(batchv1.JobComplete, "SuccessPolicy")
		if j.Status.Succeeded != 1 || j.Status.Failed != 0 {
			t.Errorf("status %+v", j.Status)
		}
	})
}

func TestFailurePolicyFailsTheJobOrIgnoresThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		codes := []int32{7, 7, 42}
		began := time.Now()
		c.outcome = func(*corev1.Pod) int32 {
			code := codes[0]
			codes = codes[1:]
			return code
		}
		rule := func(action batchv1.PodFailurePolicyAction, code int32) batchv1.PodFailurePolicyRule {
			return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{code}}}
		}
		c.job(func(j *batchv1.Job) {
			j.Spec.BackoffLimit = ptr(0)
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{rule("Ignore", 7), rule("FailJob", 42)}}
		})
		j := c.expect(batchv1.JobFailed, "PodFailurePolicy")
		if j.Status.Failed != 1 {
			t.Errorf("status %+v", j.Status)
		}
		if took := j.Status.Conditions[0].LastTransitionTime.Sub(began); took < 30*time.Second {
			t.Errorf("pods were replaced without a pause, within %v, because their failures were ignored", took)
		}
		message := j.Status.Conditions[0].Message
		var name string
		for _, p := range c.pods() {
			if p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 42 {
				name = p.Name
			}
		}
		if want := "Container main for pod default/" + name + " failed with exit code 42 matching FailJob rule at index 1"; message != want {
			t.Errorf("message %q, expected %q", message, want)
		}
	})
}

func TestSuspendedJobHasNoPodsAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(*corev1.Pod) int32 { return running }
		c.job(func(*batchv1.Job) {})
		c.edit(func(j *batchv1.Job) { yes := true; j.Spec.Suspend = &yes })
		if n := len(c.pods()); n != 0 {
			t.Errorf("%d pods of a suspended job", n)
		}
		if j := looptest.All[batchv1.Job](c.server, "jobs")[0]; j.Status.StartTime != nil {
			t.Errorf("a suspended job has started at %v", j.Status.StartTime)
		}
		c.mu.Lock()
		c.outcome = func(*corev1.Pod) int32 { return 0 }
		c.mu.Unlock()
		c.edit(func(j *batchv1.Job) { no := false; j.Spec.Suspend = &no })
		j := c.expect(batchv1.JobComplete, "CompletionsReached")
		if j.Status.Failed != 0 {
			t.Errorf("suspending counted %d failures", j.Status.Failed)
		}
	})
}

func TestAJobEndsAtItsDeadlineAndIsDeletedAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(*corev1.Pod) int32 { return running }
		c.job(func(j *batchv1.Job) {
			deadline := int64(60)
			j.Spec.ActiveDeadlineSeconds, j.Spec.TTLSecondsAfterFinished = &deadline, ptr(3600*10)
		})
		j := c.expect(batchv1.JobFailed, "DeadlineExceeded")
		if j.Status.Failed != 1 || len(c.pods()) != 0 {
			t.Errorf("%d pods left, status %+v", len(c.pods()), j.Status)
		}
		time.Sleep(10 * time.Hour)
		if left := looptest.All[batchv1.Job](c.server, "jobs"); len(left) != 1 || left[0].DeletionTimestamp == nil {
			t.Error("not deleted in the foreground after its time")
		}
	})
}

func TestPodsOfADeletedJobLoseTheirFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.outcome = func(*corev1.Pod) int32 { return running }
		c.job(func(*batchv1.Job) {})
		if err := c.clients.Kube.BatchV1().Jobs("default").Delete(t.Context(), "work", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if pods := c.pods(); len(pods) != 1 || len(pods[0].Finalizers) != 0 {
			t.Errorf("pods %+v", pods)
		}
	})
}

// Loops crash at any write, pods fail and nodes lose them: each end of a pod is counted once, and the Job gets its
// completions.
func TestEveryPodIsCountedOnceWhateverCrashes(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crashing(t, seed) })
		})
	}
}

func crashing(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 5))
	c := prepare(t)
	failures := map[types.UID]bool{}
	luck := rand.New(rand.NewPCG(seed, 7))
	c.outcome = func(p *corev1.Pod) int32 {
		if luck.IntN(3) == 0 {
			failures[p.UID] = true
			return 1
		}
		return 0
	}
	lives := looptest.StartLives(t, c.server, rand.New(rand.NewPCG(seed, 6)), job.Options{}.Entry())
	looptest.Run(t, c.clients, c.nodes)
	most := int32(6)
	c.create(func(j *batchv1.Job) {
		if seed%2 == 0 {
			indexed(12, most)(j)
		}
		j.Spec.Completions, j.Spec.Parallelism, j.Spec.BackoffLimit = ptr(12), &most, ptr(1000)
	})
	for range 30 {
		time.Sleep(time.Duration(random.IntN(20000)) * time.Millisecond)
		switch random.IntN(4) {
		case 0:
			c.server.DropWatches()
		case 1:
			c.server.Compact()
		}
	}
	deaths := lives.Calm()
	time.Sleep(10 * time.Hour)
	j := c.expect(batchv1.JobComplete, "CompletionsReached")
	if j.Status.Succeeded != 12 || int(j.Status.Failed) != len(failures) {
		t.Errorf("%d successes and %d failures counted; there were 12 and %d", j.Status.Succeeded, j.Status.Failed, len(failures))
	}
	if deaths == 0 {
		t.Error("nothing crashed: the test shows nothing")
	}
	if n := c.most(); n > int(most) && seed%2 == 0 {
		t.Logf("%d pods at a time", n)
	}
}

func TestAPodThatIsDeletedMaySucceedASecondLong(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := prepare(t)
			looptest.Start(t, c.clients, job.Options{}.Entry())
			c.job(func(*batchv1.Job) {})
			pod := c.pods()[0]
			pods := c.server.Kube.CoreV1().Pods(pod.Namespace)
			if err := pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "any"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(900 * time.Millisecond)
			if j := looptest.All[batchv1.Job](c.server, "jobs")[0]; j.Status.Failed != 0 || j.Status.Active != 1 {
				t.Errorf("it was counted before it has ended: %+v", j.Status)
			}
			if ends {
				looptest.Edit(c.server, "pods", pod.Namespace, pod.Name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			j := looptest.All[batchv1.Job](c.server, "jobs")[0]
			if done := j.Status.Succeeded == 1 && j.Status.Failed == 0; ends && !done {
				t.Errorf("it has succeeded: %+v", j.Status)
			}
			if !ends && j.Status.Failed != 1 {
				t.Errorf("it does not end: %+v", j.Status)
			}
		})
	}
}

func TestPodsThatFailTogetherAreCountedTogether(t *testing.T) {
	for _, together := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := prepare(t)
			looptest.Start(t, c.clients, job.Options{}.Entry())
			c.job(func(j *batchv1.Job) {
				j.Spec.Completions, j.Spec.Parallelism, j.Spec.BackoffLimit = ptr(2), ptr(2), ptr(0)
			})
			fail := func(pod *corev1.Pod) {
				looptest.Edit(c.server, "pods", pod.Namespace, pod.Name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
				time.Sleep(500 * time.Millisecond)
			}
			status := func() batchv1.JobStatus { return looptest.All[batchv1.Job](c.server, "jobs")[0].Status }
			pods := c.pods()
			fail(pods[0])
			if s := status(); s.Failed != 0 || len(s.Conditions) != 0 {
				t.Errorf("the Job ends before the other pod has had time to: %+v", s)
			}
			if together {
				fail(pods[1])
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			s := status()
			if s.Failed != 2 || s.Conditions[len(s.Conditions)-1].Type != batchv1.JobFailed {
				t.Errorf("together %v: at the end the status is %+v", together, s)
			}
			if left := len(c.pods()); together && left != 2 || !together && left != 1 {
				t.Errorf("together %v: %d pods are left", together, left)
			}
		})
	}
}

const running = -1 // the outcome of a pod that keeps running

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
	nodes   *looptest.Nodes

	mu      sync.Mutex // guards what follows
	outcome func(*corev1.Pod) int32
	seen    map[types.UID]time.Time
}

func prepare(t *testing.T) *cluster {
	server := looptest.New(t, millracetest.API(t))
	c := &cluster{t: t, server: server, clients: server.Clients(), seen: map[types.UID]time.Time{}, outcome: func(*corev1.Pod) int32 { return 0 }}
	c.nodes = &looptest.Nodes{Server: server, Settle: c.settle}
	return c
}

func start(t *testing.T, options ...job.Options) *cluster {
	c := prepare(t)
	o := slices.Concat(options, []job.Options{{}})[0]
	looptest.Run(t, c.clients, append(looptest.Make(t, c.clients, o.Entry(), o.TTLEntry()), c.nodes)...)
	return c
}

// settle ends a running pod with its outcome.
func (c *cluster) settle(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.seen[pod.UID]; !ok {
		c.seen[pod.UID] = time.Now()
		return // it runs at least until the next sync
	}
	code := c.outcome(pod)
	if code == running {
		return
	}
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()},
	}}}
}

func ptr(n int32) *int32 { return &n }

func indexed(completions, parallelism int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		mode := batchv1.IndexedCompletion
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = &mode, &completions, &parallelism
	}
}

func (c *cluster) create(edit func(*batchv1.Job)) {
	c.t.Helper()
	labels := map[string]string{"job": "work"}
	manual := true
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr(1), Completions: ptr(1), BackoffLimit: ptr(6),
			Selector: &metav1.LabelSelector{MatchLabels: labels}, ManualSelector: &manual,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: looptest.Containers(), RestartPolicy: corev1.RestartPolicyNever},
			},
		},
	}
	edit(j)
	if _, err := c.clients.Kube.BatchV1().Jobs("default").Create(c.t.Context(), j, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) job(edit func(*batchv1.Job)) {
	c.t.Helper()
	c.create(edit)
	time.Sleep(time.Hour)
	synctest.Wait()
}

func (c *cluster) edit(edit func(*batchv1.Job)) {
	looptest.Edit(c.server, "jobs", "default", "work", edit)
	time.Sleep(time.Hour)
	synctest.Wait()
}

func (c *cluster) pods() []*corev1.Pod { return looptest.All[corev1.Pod](c.server, "pods") }

// most returns the largest number of pods that ran at the same time, according to their times.
func (c *cluster) most() int {
	type event struct {
		at    time.Time
		delta int
	}
	var events []event
	for _, p := range c.pods() {
		events = append(events, event{p.CreationTimestamp.Time, 1})
		if s := p.Status.ContainerStatuses; len(s) > 0 && s[0].State.Terminated != nil {
			events = append(events, event{s[0].State.Terminated.FinishedAt.Time, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		if d := a.at.Compare(b.at); d != 0 {
			return d
		}
		return a.delta - b.delta
	})
	now, most := 0, 0
	for _, e := range events {
		now += e.delta
		most = max(most, now)
	}
	return most
}

func (c *cluster) expect(kind batchv1.JobConditionType, reason string) *batchv1.Job {
	c.t.Helper()
	j := looptest.All[batchv1.Job](c.server, "jobs")[0]
	for _, condition := range j.Status.Conditions {
		if condition.Type == kind && condition.Status == corev1.ConditionTrue {
			if condition.Reason != reason {
				c.t.Errorf("%s because of %s", kind, condition.Reason)
			}
			return j
		}
	}
	c.t.Fatalf("the job is not %s: %+v", kind, j.Status)
	return nil
}

// startMeasured starts the loop, and returns what it has counted, by names without the loop's own.
func startMeasured(t *testing.T) (*cluster, func(name string) float64) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	c := start(t, job.Options{Metrics: job.NewMetrics(meter.New(metrics))})
	return c, func(name string) float64 {
		all := looptest.Measured(t, metrics)
		return all["job_controller_"+name] + all["ttl_after_finished_controller_"+name]
	}
}

func TestAJobOfAnotherControllerIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, counted := startMeasured(t)
		by := "example.com/other"
		c.job(func(j *batchv1.Job) { j.Spec.ManagedBy = &by })
		looptest.Edit(c.server, "jobs", "default", "work", func(j *batchv1.Job) { j.Labels = map[string]string{"changed": "yes"} })
		time.Sleep(time.Minute)
		if others, pods := counted("jobs_by_external_controller_total "+by), counted("job_pods_creation_total new succeeded"); others != 1 || pods != 0 {
			t.Errorf("%v Jobs of others, %v pods", others, pods)
		}
	})
}

func TestRulesIndexesAndLateDeletionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, counted := startMeasured(t)
		c.outcome = func(p *corev1.Pod) int32 {
			if p.Annotations[batchv1.JobCompletionIndexAnnotation] == "1" {
				return 7
			}
			return 0
		}
		c.job(func(j *batchv1.Job) {
			indexed(2, 2)(j)
			j.Spec.BackoffLimitPerIndex, j.Spec.TTLSecondsAfterFinished = ptr(3), ptr(60)
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{Action: "FailIndex", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{7}}},
			}}
		})
		c.expect(batchv1.JobFailed, "FailedIndexes")
		time.Sleep(time.Hour)
		expect(t, counted, map[string]float64{
			"pod_failures_handled_by_failure_policy_total FailIndex": 1, "job_deletion_duration_seconds n": 1,
			"job_finished_indexes_total perIndex succeeded": 1, "job_finished_indexes_total perIndex failed": 1,
		})
		if late := counted("job_deletion_duration_seconds"); late < 0 || late > 60 {
			t.Errorf("the deleted Job was %v s late", late)
		}
	})
}

func TestWhatBecomesOfAJobIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, counted := startMeasured(t)
		c.outcome = func(p *corev1.Pod) int32 {
			if p.Annotations[batchv1.JobCompletionIndexAnnotation] == "1" {
				return 1
			}
			return 0
		}
		c.job(func(j *batchv1.Job) {
			indexed(3, 3)(j)
			j.Spec.BackoffLimit = ptr(1)
		})
		c.expect(batchv1.JobFailed, "BackoffLimitExceeded")
		time.Sleep(time.Hour)
		expect(t, counted, map[string]float64{
			"jobs_finished_total Indexed BackoffLimitExceeded failed": 1,
			"job_pods_finished_total Indexed succeeded":               2, "job_pods_finished_total Indexed failed": 2,
			"job_pods_creation_total new succeeded": 3, "job_pods_creation_total recreate_terminating_or_failed succeeded": 1,
			"terminated_pods_tracking_finalizer_total add": 4, "terminated_pods_tracking_finalizer_total delete": 4,
			"job_finished_indexes_total global succeeded": 2, "job_finished_indexes_total global failed": 0,
			"job_syncs_total pods_created Indexed success": 2,
		})
		if counted("job_syncs_total tracking Indexed success") == 0 {
			t.Error("no sync has counted pods")
		}
	})
}

// expect compares what was counted.
func expect(t *testing.T, counted func(string) float64, want map[string]float64) {
	t.Helper()
	for name, n := range want {
		if got := counted(name); got != n {
			t.Errorf("%s is %v, expected %v", name, got, n)
		}
	}
}
