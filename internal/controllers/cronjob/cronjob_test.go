package cronjob_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/cronjob"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/job"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// A synctest bubble starts at midnight UTC on 2000-01-01.

func TestAJobIsMadeAtEachScheduledTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, succeed)
		c.create("*/10 * * * *", func(*batchv1.CronJob) {})
		time.Sleep(35 * time.Minute)
		c.expect("09:10 09:20 09:30")
		cron := c.cron()
		if cron.Status.LastScheduleTime.UTC().Format(time.TimeOnly) != "00:30:00" || cron.Status.LastSuccessfulTime == nil || len(cron.Status.Active) != 0 {
			t.Errorf("status %+v", cron.Status)
		}
		j := c.jobs()[0]
		if j.Name != fmt.Sprintf("tick-%d", time.Date(2000, 1, 1, 0, 10, 0, 0, time.UTC).Unix()/60) || j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] != "2000-01-01T09:10:00+09:00" {
			t.Errorf("job %s, annotations %v", j.Name, j.Annotations)
		}
		c.event("SuccessfulCreate", "Created job "+j.Name)
		c.event("SawCompletedJob", "Saw completed job: "+j.Name+", condition: Complete")
		time.Sleep(time.Hour)
		if n := len(c.jobs()); n != 3 {
			t.Errorf("%d jobs are kept, and three is the limit", n)
		}
	})
}

func TestScheduledTimesAreInTheTimeZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, succeed)
		c.create("30 9 * * *", func(*batchv1.CronJob) {})
		time.Sleep(25 * time.Hour)
		c.expect("09:30 09:30")
	})
}

func TestTheConcurrencyPolicyDecidesWhenAJobIsStillRunning(t *testing.T) {
	for policy, want := range map[batchv1.ConcurrencyPolicy]string{
		batchv1.AllowConcurrent: "09:10 09:20 09:30", batchv1.ForbidConcurrent: "09:10", batchv1.ReplaceConcurrent: "09:30",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := start(t, func(*corev1.Pod) {})
			c.create("*/10 * * * *", func(j *batchv1.CronJob) { j.Spec.ConcurrencyPolicy = policy })
			time.Sleep(35 * time.Minute)
			c.expect(want)
			if n := len(c.cron().Status.Active); n != len(strings.Fields(want)) {
				t.Errorf("%s: %d jobs are active", policy, n)
			}
			if policy == batchv1.ForbidConcurrent {
				c.event("JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
			}
		})
	}
}

func TestOnlyTheLatestMissedTimeGetsAJobAndOnlyWithinTheDeadline(t *testing.T) {
	for deadline, want := range map[int64]string{-1: "09:30", 600: "09:30", 60: ""} {
		synctest.Test(t, func(t *testing.T) {
			c := prepare(t, succeed)
			c.create("*/10 * * * *", func(j *batchv1.CronJob) {
				if deadline >= 0 {
					j.Spec.StartingDeadlineSeconds = &deadline
				}
			})
			time.Sleep(35 * time.Minute)
			c.run()
			time.Sleep(time.Minute)
			c.expect(want)
		})
	}
}

func TestManyMissedTimesAreReportedAndTheLatestGetsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t, succeed)
		c.create("* * * * *", func(*batchv1.CronJob) {})
		time.Sleep(4*time.Hour + 30*time.Second)
		c.run()
		time.Sleep(10 * time.Second)
		c.expect("13:00")
		c.event("TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	})
}

func TestASuspendedCronJobMakesNoJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, succeed)
		yes := true
		c.create("*/10 * * * *", func(j *batchv1.CronJob) { j.Spec.Suspend = &yes })
		time.Sleep(time.Hour)
		c.expect("")
	})
}

func TestTheEndOfAJobIsReportedOnlyIfTheJobIsKept(t *testing.T) {
	for limit, want := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			c := start(t, succeed)
			keep := int32(limit)
			c.create("*/10 * * * *", func(j *batchv1.CronJob) { j.Spec.SuccessfulJobsHistoryLimit = &keep })
			time.Sleep(15 * time.Minute)
			reported := 0
			for _, e := range looptest.All[corev1.Event](c.server, "events") {
				if e.Reason == "SawCompletedJob" {
					reported++
				}
			}
			if cron := c.cron(); reported != want || len(cron.Status.Active) != 0 || cron.Status.LastSuccessfulTime == nil || len(c.jobs()) != limit {
				t.Errorf("%d are kept: %d reported, status %+v", limit, reported, cron.Status)
			}
		})
	}
}

func TestAScheduleWithoutATimeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, succeed)
		c.create("0 0 31 2 *", func(*batchv1.CronJob) {})
		time.Sleep(time.Minute)
		c.expect("")
		c.event("InvalidSchedule", "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second")
	})
}

// The wall clock jumps. Timers do not notice, as on a machine that was suspended.
func TestAJumpOfTheClockIsNoticedWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t, succeed)
		c.create("0 12 * * *", func(*batchv1.CronJob) {})
		jump := time.Duration(0)
		c.clients.Now = func() time.Time { return time.Now().Add(jump) }
		c.run()
		time.Sleep(10 * time.Minute)
		jump = 3 * time.Hour
		time.Sleep(2 * time.Minute)
		c.expect("12:00")
	})
}

// Loops crash at any write, watches are cut, delayed or expired, clients write at the same time: no scheduled time has
// two Jobs, and in the end the latest time has one.
func TestWhateverCrashesNoScheduledTimeHasTwoJobs(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { converge(t, seed) })
		})
	}
}

func converge(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := prepare(t, succeed)
	lives := looptest.StartLives(t, c.server, rand.New(rand.NewPCG(seed, 2)), cronjob.Options{}.Entry(), job.Options{}.Entry())
	looptest.Run(t, c.clients, c.nodes)
	c.create("* * * * *", func(j *batchv1.CronJob) {
		many := int32(1000)
		j.Spec.SuccessfulJobsHistoryLimit = &many
	})
	for range 60 {
		switch random.IntN(4) {
		case 0:
			c.server.DropWatches()
		case 1:
			c.server.Compact()
		case 2:
			c.server.HoldWatches(random.IntN(2) == 0)
		}
		time.Sleep(time.Duration(random.IntN(60)) * time.Second)
	}
	c.server.HoldWatches(false)
	if lives.Calm() == 0 {
		t.Error("nothing crashed: the test shows nothing")
	}
	time.Sleep(10*time.Minute + 30*time.Second)
	seen := map[string]bool{}
	for _, j := range c.jobs() {
		at := j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
		if seen[at] {
			t.Errorf("two jobs for %s", at)
		}
		seen[at] = true
	}
	last := time.Now().Truncate(time.Minute).In(tokyo).Format(time.RFC3339)
	if !seen[last] {
		t.Errorf("no job for %s", last)
	}
	if active := c.cron().Status.Active; len(active) != 0 {
		t.Errorf("still active: %v", active)
	}
}

var tokyo = time.FixedZone("Asia/Tokyo", 9*60*60)

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
	nodes   *looptest.Nodes
}

func succeed(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func prepare(t *testing.T, settle func(*corev1.Pod)) *cluster {
	server := looptest.New(t, millracetest.API(t))
	return &cluster{t, server, server.Clients(), &looptest.Nodes{Server: server, Settle: settle}}
}

func (c *cluster) run() {
	looptest.Run(c.t, c.clients, append(looptest.Make(c.t, c.clients, cronjob.Options{}.Entry(), job.Options{}.Entry()), c.nodes)...)
}

func start(t *testing.T, settle func(*corev1.Pod)) *cluster {
	c := prepare(t, settle)
	c.run()
	return c
}

func (c *cluster) create(schedule string, edit func(*batchv1.CronJob)) {
	c.t.Helper()
	zone := "Asia/Tokyo"
	j := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "tick"},
		Spec: batchv1.CronJobSpec{
			Schedule: schedule, TimeZone: &zone,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: looptest.Containers()},
			}}},
		},
	}
	edit(j)
	if _, err := c.server.Kube.BatchV1().CronJobs("default").Create(c.t.Context(), j, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) cron() *batchv1.CronJob {
	return looptest.All[batchv1.CronJob](c.server, "cronjobs")[0]
}

func (c *cluster) jobs() []*batchv1.Job { return looptest.All[batchv1.Job](c.server, "jobs") }

// expect compares the scheduled times of all Jobs, in Tokyo.
func (c *cluster) expect(times string) {
	c.t.Helper()
	synctest.Wait()
	var got []string
	for _, j := range c.jobs() {
		at, err := time.Parse(time.RFC3339, j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"])
		if err != nil {
			c.t.Error(err)
		}
		got = append(got, at.Format("15:04"))
	}
	slices.Sort(got)
	if strings.Join(got, " ") != times {
		c.t.Errorf("jobs of %v, expected %s", got, times)
	}
}

func (c *cluster) event(reason, message string) {
	c.t.Helper()
	var all []string
	for _, e := range looptest.All[corev1.Event](c.server, "events") {
		if e.Reason == reason && e.Message == message && e.Source.Component == "cronjob-controller" {
			return
		}
		all = append(all, e.Reason+": "+e.Message)
	}
	c.t.Errorf("no event %s: %s among %q", reason, message, all)
}
