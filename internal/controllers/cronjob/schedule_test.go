package cronjob

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
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
