-- Outgoing envelopes. `state`: 0 unsent, 1 sent, 2 withheld until a replay, 3 dropped on purpose (2 and 3 by scripts only).
-- `send_order` is the sequence, unless a script swaps two envelopes. `attempt` is part of the deduplication id; `extra_sends` are
-- additional deliveries that a script requests.
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

-- Bodies that are too large for an envelope, until they are uploaded. They are sent before the envelope `sequence`.
CREATE TABLE blobs (
    sha256   TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    bytes    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Received commands, in order of arrival. `ack` is the last acknowledgement, a raw event.
CREATE TABLE commands (
    position   INTEGER PRIMARY KEY,
    command_id TEXT NOT NULL UNIQUE,
    attempt    INTEGER NOT NULL,
    body       TEXT NOT NULL,
    over       INTEGER NOT NULL DEFAULT 0,
    ack        TEXT
) STRICT;

-- The progress of each message, independent of the command that carried it.
CREATE TABLE messages (
    message_id TEXT PRIMARY KEY,
    command_id TEXT NOT NULL,
    phase      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
