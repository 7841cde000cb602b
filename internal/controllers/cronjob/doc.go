// Package cronjob makes Jobs at the scheduled times of CronJobs.
//
// Guarantees: at most one Job is made for each scheduled time, whatever crashes, because its name contains the time. Of
// missed times only the latest gets a Job, and only within the starting deadline. With the concurrency policy Forbid no
// Job is made while another Job of the CronJob is known to run; with Replace the running one is deleted first. The wall
// clock decides. It may jump, so the loop reads it at least once a minute.
package cronjob
