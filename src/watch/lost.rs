//! What is gone that should not be.

use super::{Look, Notice, Told};

/// Sequences that are named in one line.
const NAMED: usize = 10;

pub(super) fn compare(before: &Look, look: &Look, vanishing: &mut bool, told: &mut Told) {
    vanished(before, look, vanishing, told);
    deleted_in_flight(before, look, told);
    removed_unread(before, look, told);
}

/// Published since the look before, stored nowhere, delivered to nobody: interest retention without interest. With other
/// consumers on the stream this cannot be told from messages that they have settled already. The stream sequence of the durable
/// passes what it does not want, its consumer sequence does not.
fn vanished(before: &Look, look: &Look, said: &mut bool, told: &mut Told) {
    let (old, new) = (&before.stream.state, &look.stream.state);
    let published = new.last_seq.saturating_sub(old.last_seq);
    let is_delivered = look.durable.delivered.consumer_seq > before.durable.delivered.consumer_seq;
    let is_interest = look.stream.config.retention == "interest";
    if !is_interest || published == 0 || new.consumer_count > 1 {
        return;
    }
    let is_vanishing = !is_delivered && new.messages == 0 && look.durable.num_pending == 0;
    if is_vanishing {
        told.vanished = published;
        if !*said {
            let text = format!(
                "publishes to interest stream {} succeed and vanish: {published} since the look before (up to sequence {}), \
                 none stored, none delivered to durable {}; {} consumers",
                look.stream.config.name, new.last_seq, look.durable.name, new.consumer_count
            );
            told.notices.push(Notice::warning("publishes_vanish", text));
        }
    }
    *said = is_vanishing;
}

/// On a limits stream settled messages stay, so whatever goes between the ack floor and the last delivery was taken away from
/// under somebody. What was settled out of order above the floor cannot be told apart.
fn deleted_in_flight(before: &Look, look: &Look, told: &mut Told) {
    if look.stream.config.retention != "limits" || before.durable.num_ack_pending == 0 {
        return;
    }
    let (floor, delivered) = (before.durable.ack_floor.stream_seq, before.durable.delivered.stream_seq);
    let was_in_flight = |sequence: &u64| *sequence > floor && *sequence <= delivered;
    let is_new =
        |sequence: &u64| *sequence >= before.stream.state.first_seq && !before.deleted.contains(sequence);
    let mut gone: Vec<u64> = if look.stream.state.num_deleted > before.stream.state.num_deleted {
        look.deleted.iter().copied().filter(|sequence| was_in_flight(sequence) && is_new(sequence)).collect()
    } else {
        Vec::new()
    };
    let first = look.stream.state.first_seq;
    if first > before.stream.state.first_seq {
        let from = before.stream.state.first_seq.max(floor + 1);
        let to = first.saturating_sub(1).min(delivered);
        let bound = u64::try_from(NAMED).unwrap_or(u64::MAX);
        told.deleted_in_flight += (to + 1).saturating_sub(from).saturating_sub(bound);
        gone.extend((from..=to).take(NAMED));
    }
    if gone.is_empty() {
        return;
    }
    told.deleted_in_flight += u64::try_from(gone.len()).unwrap_or(u64::MAX);
    let named: Vec<_> = gone.iter().take(NAMED).map(u64::to_string).collect();
    let text = format!(
        "{} messages of stream {} were deleted while they were in flight (ack floor {floor}, delivered up to {delivered}): {}",
        told.deleted_in_flight,
        look.stream.config.name,
        named.join(", ")
    );
    told.notices.push(Notice::warning("deleted_in_flight", text));
}

/// The first sequence has passed what the durable was handed: a gap that nobody has read.
fn removed_unread(before: &Look, look: &Look, told: &mut Told) {
    let (first, delivered) = (look.stream.state.first_seq, before.durable.delivered.stream_seq);
    let filters = look.durable.config.filters();
    let is_limits = look.stream.config.retention == "limits";
    let moved = first > before.stream.state.first_seq && before.durable.num_pending > 0;
    if !is_limits || !moved || !filters.is_empty() || first <= delivered + 1 {
        return;
    }
    // What was delivered meanwhile was read in time.
    let reached = look.durable.delivered.stream_seq.min(first - 1);
    let skipped = look.durable.delivered.consumer_seq.saturating_sub(before.durable.delivered.consumer_seq);
    let gone =
        (first - 1).saturating_sub(delivered).saturating_sub(skipped.min(reached.saturating_sub(delivered)));
    if gone > 0 {
        told.removed_unread = gone;
        let text = format!(
            "{gone} messages of stream {} were removed before they were delivered: the first sequence is {first}, the durable \
             was at {delivered}",
            look.stream.config.name
        );
        told.notices.push(Notice::warning("removed_unread", text));
    }
}
