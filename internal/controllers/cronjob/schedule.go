package cronjob

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/millrace/millrace/internal/demand"
)

// scheduleOf parses the schedule of a CronJob, in its time zone.
func scheduleOf(j *batchv1.CronJob) (cron.Schedule, error) {
	text := j.Spec.Schedule
	if zone := j.Spec.TimeZone; zone != nil && !strings.Contains(text, "TZ") {
		if _, err := time.LoadLocation(*zone); err != nil {
			return nil, zoneError{*zone, err}
		}
		text = fmt.Sprintf("TZ=%s %s", *zone, text)
	}
	return cron.ParseStandard(text)
}

type zoneError struct {
	zone  string
	cause error
}

func (e zoneError) Error() string { return fmt.Sprintf("invalid timeZone: %q: %s", e.zone, e.cause) }

// manyMissed is the number of missed times from which a warning is recorded.
const manyMissed = 100

// latest returns the last scheduled time in (after, now], or zero. many is true if more than a hundred times were
// missed.
func latest(s cron.Schedule, after, now time.Time) (last time.Time, many bool) {
	count, t := 0, s.Next(after)
	for ; !t.IsZero() && !t.After(now) && count <= manyMissed; t = s.Next(t) {
		last = t
		count++
	}
	if count <= manyMissed {
		return last, false
	}
	// The last time is near the end: search backwards in growing windows, as far as the time that was found.
	for window := time.Hour; ; window *= 24 {
		from := now.Add(-window)
		reached := from.Before(last) || window > longestWindow
		if reached {
			from = last
		}
		found := false
		for t := s.Next(from); !t.IsZero() && !t.After(now); t = s.Next(t) {
			last, found = t, true
		}
		if found || reached {
			return last, true
		}
	}
}

// longestWindow is the last that can be made 24 times as long.
const longestWindow = math.MaxInt64 / 24

// earliest returns the time after which scheduled times count: earlier ones were handled, or are too late.
func earliest(j *batchv1.CronJob, now time.Time) time.Time {
	from := j.CreationTimestamp.Time
	if last := j.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	if d := j.Spec.StartingDeadlineSeconds; d != nil {
		if limit := now.Add(-demand.Seconds(*d)); limit.After(from) {
			return limit
		}
	}
	return from
}

// longestPause limits the time between two syncs. The clock may have jumped, or have stood still while the machine was
// suspended.
const longestPause = time.Minute

// pause returns the time until the next scheduled time.
func pause(s cron.Schedule, now time.Time) time.Duration {
	next := s.Next(now)
	if next.IsZero() {
		return longestPause
	}
	return min(longestPause, max(time.Millisecond, next.Sub(now)))
}
