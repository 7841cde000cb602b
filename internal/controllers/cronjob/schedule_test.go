package cronjob

import (
	"math"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counted counts calls of a schedule.
type counted struct {
	cron.Schedule
	asked *int
}

func (c counted) Next(t time.Time) time.Time {
	*c.asked++
	return c.Schedule.Next(t)
}

func TestTheLatestOfVeryManyMissedTimesIsFoundQuickly(t *testing.T) {
	now := time.Date(2026, 7, 14, 12, 34, 56, 0, time.UTC)
	for text, want := range map[string]string{
		"* * * * *": "2026-07-14 12:34:00", "0 3 * * *": "2026-07-14 03:00:00", "0 3 1 * *": "2026-07-01 03:00:00", "0 0 30 2 *": "",
	} {
		s, err := cron.ParseStandard(text)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		last, many := latest(counted{s, &asked}, now.AddDate(-20, 0, 0), now)
		got := ""
		if !last.IsZero() {
			got = last.Format(time.DateTime)
		}
		if got != want || many != (want != "") || asked > 1000 {
			t.Errorf("%s: %q (many %t) after %d questions, expected %q", text, got, many, asked, want)
		}
	}
}

func TestAMissedLeapDayIsFound(t *testing.T) {
	s, err := cron.ParseStandard("0 0 29 2 *")
	if err != nil {
		t.Fatal(err)
	}
	last, many := latest(s, time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	if many || last.Year() != 2024 {
		t.Errorf("%v", last)
	}
}

func TestTheLatestIsFoundWhateverTheNumberOfMissedTimes(t *testing.T) {
	now := time.Date(2026, 7, 14, 12, 34, 30, 0, time.UTC)
	for text, between := range map[string]time.Duration{"@every 1s": time.Second, "* * * * *": time.Minute, "0 * * * *": time.Hour, "0 3 * * *": 24 * time.Hour} {
		s, err := cron.ParseStandard(text)
		if err != nil {
			t.Fatal(err)
		}
		for missed := range 300 {
			asked := 0
			last, many := latest(counted{s, &asked}, now.Add(-between*time.Duration(missed)), now)
			if next := s.Next(last); missed > 1 && (last.IsZero() || last.After(now) || !next.After(now)) || asked > 5000 {
				t.Errorf("%s, %d missed: %v after %d questions", text, missed, last, asked)
			}
			if many != (missed > manyMissed) && missed != manyMissed && missed != manyMissed+1 {
				t.Errorf("%s, %d missed: many is %t", text, missed, many)
			}
		}
	}
}

func TestTimesFarInThePastAndDeadlinesWithoutEndNeedNoTime(t *testing.T) {
	s, err := cron.ParseStandard("@every 1s")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 7, 14, 12, 34, 56, 0, time.UTC)
	asked := 0
	if last, many := latest(counted{s, &asked}, time.Time{}, now); last != now || !many || asked > 5000 {
		t.Errorf("since the year 1: %v (many %t) after %d questions", last, many, asked)
	}
	made := now.Add(-time.Minute)
	for _, d := range []int64{10_000_000_000, math.MaxInt64} {
		j := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Spec: batchv1.CronJobSpec{StartingDeadlineSeconds: &d}}
		if got := earliest(j, now); !got.Equal(made) {
			t.Errorf("with a deadline of %d seconds, times count from %v", d, got)
		}
	}
}
