package cronjob

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

// scheduleOf reads the schedule of a CronJob, in its time zone.
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

// manyMissed is how many missed times are worth a warning.
const manyMissed = 100

// latest is the last scheduled time after one moment and not after another. It is zero if there is none. many says that more
// than a hundred times were missed.
func latest(s cron.Schedule, after, now time.Time) (last time.Time, many bool) {
	count, t := 0, s.Next(after)
	for ; !t.IsZero() && !t.After(now) && count <= manyMissed; t = s.Next(t) {
		last = t
		count++
	}
	if count <= manyMissed {
		return last, false
	}
	// The last one is near the end: look back from there, further and further.
	for window := time.Hour; ; window *= 24 {
		from := now.Add(-window)
		if from.Before(last) {
			from = last
		}
		for t := s.Next(from); !t.IsZero() && !t.After(now); t = s.Next(t) {
			last = t
		}
		if last.After(from) || !from.After(after) {
			return last, true
		}
	}
}

// earliest is the moment after which times count: those before were seen to, or are too late.
func earliest(j *batchv1.CronJob, now time.Time) time.Time {
	from := j.CreationTimestamp.Time
	if last := j.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	if d := j.Spec.StartingDeadlineSeconds; d != nil {
		if limit := now.Add(-time.Duration(*d) * time.Second); limit.After(from) {
			return limit
		}
	}
	return from
}

// longestPause bounds the time between two looks at the clock, which may have jumped, or stood still while the machine slept.
const longestPause = time.Minute

// pause is the time until the next scheduled time.
func pause(s cron.Schedule, now time.Time) time.Duration {
	next := s.Next(now)
	if next.IsZero() {
		return longestPause
	}
	return min(longestPause, max(time.Millisecond, next.Sub(now)))
}
