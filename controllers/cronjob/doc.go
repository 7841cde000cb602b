// Package cronjob makes Jobs at the times that a CronJob names.
//
// What is guaranteed: of each scheduled time at most one Job is made, whatever crashes, because its name is the time. Times
// that were missed are not made up for, but for the latest, and that only within the starting deadline. With the concurrency policy
// Forbid no Job is made while another one of the CronJob is known to run; with Replace the running one is deleted first.
// The wall clock decides: it may jump, and the loop looks at it at least once a minute.
package cronjob
