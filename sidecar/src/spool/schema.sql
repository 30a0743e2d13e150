-- Envelopes out. `state`: 0 unsent, 1 sent, 2 withheld until replayed, 3 lost on purpose (2 and 3 by scripts only).
-- `send_order` is the sequence, except where a script wants two envelopes swapped. `attempt` is part of the
-- deduplication id; `extra_sends` are further deliveries that a script wants.
CREATE TABLE outgoing (
    sequence    INTEGER PRIMARY KEY,
    send_order  INTEGER NOT NULL,
    message_id  TEXT NOT NULL,
    body        TEXT NOT NULL,
    state       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL DEFAULT 1,
    extra_sends INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX unsent ON outgoing (send_order) WHERE state = 0;

-- Bodies too large for an envelope, until they are uploaded; they go before the envelope `sequence`.
CREATE TABLE blobs (
    sha256   TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    bytes    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Commands in, in the order in which they came. `ack` is the last acknowledgement, a raw event.
CREATE TABLE commands (
    position   INTEGER PRIMARY KEY,
    command_id TEXT NOT NULL UNIQUE,
    attempt    INTEGER NOT NULL,
    body       TEXT NOT NULL,
    over       INTEGER NOT NULL DEFAULT 0,
    ack        TEXT
) STRICT;

-- How far each message got, whichever command carried it.
CREATE TABLE messages (
    message_id TEXT PRIMARY KEY,
    command_id TEXT NOT NULL,
    phase      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
