-- The schema of a project file, version 1.0. Every result is keyed by its item and a config hash; answers of people and
-- decisions are appended. Views are in schema.py.

-- value: JSON
CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- tokens_per_reply: mean tokens that endpoints wrote for each request; NULL where none was asked
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    stage TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('running', 'done', 'cancelled', 'failed', 'interrupted')),
    config_hash TEXT NOT NULL,
    params TEXT NOT NULL,
    fingerprints TEXT NOT NULL,
    code_version TEXT NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    done INTEGER NOT NULL DEFAULT 0,
    total INTEGER,
    message TEXT,
    pid INTEGER NOT NULL,
    tokens_per_reply REAL
) STRICT;

-- place: the absolute path, so that one file named in two ways is one source
CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    place TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL,
    format TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;

-- digest: over the bytes of the file and all that determines how it is read; report: JSON of its account
CREATE TABLE source_read (
    source_id INTEGER PRIMARY KEY REFERENCES source (id),
    digest BLOB NOT NULL,
    report TEXT NOT NULL
) STRICT;

-- created_at: ISO 8601, UTC; meta: JSON
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY,
    source_id INTEGER NOT NULL REFERENCES source (id),
    external_id TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    opening TEXT NOT NULL,
    messages INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    chars INTEGER NOT NULL,
    created_at TEXT,
    meta TEXT NOT NULL,
    line INTEGER
) STRICT;
-- What the list is ordered and filtered by, so that its ids are read off an index and no row is touched;
-- the first also holds what is counted.
CREATE INDEX conversation_by_source ON conversation (source_id, messages, turns);
CREATE INDEX conversation_by_turns ON conversation (turns);
CREATE INDEX conversation_by_messages ON conversation (messages);
CREATE INDEX conversation_by_length ON conversation (chars);
CREATE INDEX conversation_by_date ON conversation (created_at);
CREATE INDEX conversation_by_name ON conversation (external_id);

CREATE TABLE original (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
    raw BLOB NOT NULL
) STRICT;

-- id: says its conversation, so that a hit of the text index needs no look at the message;
-- tool_calls: JSON list of [name, arguments, call id]; reasoning: no model reads it; facts: JSON object, such as time,
-- model and usage; both NULL where there is none
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    idx INTEGER NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    content TEXT NOT NULL,
    tool_calls TEXT,
    tool_call_id TEXT,
    model_view TEXT,
    hidden INTEGER NOT NULL,
    reasoning TEXT,
    facts TEXT
) STRICT;

CREATE VIRTUAL TABLE message_fts USING fts5 (
    content, tool_calls, content = 'message', content_rowid = 'id');
-- Chinese and Japanese characters: engine/project/cjk_index.py
CREATE VIRTUAL TABLE message_fts_signs USING fts5 (content, tool_calls, content = '');

CREATE TABLE truth (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
    truth TEXT NOT NULL
) STRICT;

-- the same messages under another id, from another source or with other facts about them
CREATE TABLE alias (
    id INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    source_id INTEGER NOT NULL REFERENCES source (id),
    external_id TEXT NOT NULL,
    line INTEGER,
    raw BLOB NOT NULL,
    truth TEXT
) STRICT;
CREATE INDEX alias_by_conversation ON alias (conversation_id);
CREATE INDEX alias_by_name ON alias (external_id);

-- answer_id: the newest row of `answer` then, 0 for none, so that those up to it were given to this text
CREATE TABLE earlier_state (
    id INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    source_id INTEGER NOT NULL REFERENCES source (id),
    hash BLOB NOT NULL,
    line INTEGER,
    raw BLOB NOT NULL,
    truth TEXT,
    messages INTEGER NOT NULL,
    answer_id INTEGER NOT NULL,
    replaced_at TEXT NOT NULL
) STRICT;
CREATE INDEX earlier_state_by_conversation ON earlier_state (conversation_id, answer_id);
CREATE INDEX earlier_state_by_hash ON earlier_state (hash);

CREATE TABLE leak (
    id INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    message INTEGER,
    rule TEXT NOT NULL,
    found TEXT NOT NULL
) STRICT;
CREATE INDEX leak_by_conversation ON leak (conversation_id);

-- digest: over source, line and bytes, so that importing again adds nothing
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    source_id INTEGER NOT NULL REFERENCES source (id),
    line INTEGER,
    reason TEXT NOT NULL,
    raw BLOB NOT NULL
) STRICT;

-- an index of tools, models, metadata and truth
CREATE TABLE facet (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL COLLATE NOCASE,
    value TEXT NOT NULL COLLATE NOCASE,
    number REAL,
    UNIQUE (key, value)
) STRICT;
CREATE INDEX facet_by_number ON facet (key, number) WHERE number IS NOT NULL;

CREATE TABLE conversation_facet (
    facet_id INTEGER NOT NULL REFERENCES facet (id),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    PRIMARY KEY (facet_id, conversation_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation_check (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id)
) STRICT;

-- the signs of trouble of a conversation; value: how much of it there is; messages: JSON list of the indices that show it;
-- score: the standard score of the value among all conversations, NULL before all were compared
CREATE TABLE sign (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    sign TEXT NOT NULL,
    value REAL NOT NULL,
    messages TEXT NOT NULL,
    reason TEXT NOT NULL,
    score REAL,
    PRIMARY KEY (conversation_id, sign)
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_by_name ON sign (sign);

-- a row for each conversation whose signs were read; total: of their standard scores, NULL before all were compared
CREATE TABLE trouble (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
    total REAL
) STRICT;
CREATE INDEX trouble_by_total ON trouble (total);

-- test: JSON of how well the scores tell endings from other boundaries; features: what a probe reads
CREATE TABLE score_config (
    config_hash TEXT PRIMARY KEY,
    mode TEXT NOT NULL
        CHECK (mode IN ('words', 'probe', 'base', 'tuned', 'judge')),
    model TEXT NOT NULL,
    adapter TEXT,
    noise REAL,
    test TEXT,
    features TEXT CHECK (features IN ('words', 'both', 'states')),
    scored INTEGER,
    read INTEGER
) STRICT, WITHOUT ROWID;

-- weights: npz of numpy, `engine.completeness.tables.word_weights`
CREATE TABLE word_weights (
    config_hash TEXT PRIMARY KEY REFERENCES score_config (config_hash),
    weights BLOB NOT NULL
) STRICT;

CREATE TABLE score (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    config_hash TEXT NOT NULL REFERENCES score_config (config_hash),
    run_id INTEGER NOT NULL REFERENCES run (id),
    p_end REAL,
    p_continue REAL,
    p_end_normalised REAL,
    reason TEXT,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, config_hash),
    CHECK (p_end_normalised IS NOT NULL OR reason IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX score_by_value ON score (config_hash, p_end_normalised);

CREATE TABLE boundary_score (
    conversation_id INTEGER NOT NULL,
    config_hash TEXT NOT NULL,
    message INTEGER NOT NULL,
    step INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    p_end REAL NOT NULL,
    p_continue REAL NOT NULL,
    PRIMARY KEY (conversation_id, config_hash, message),
    FOREIGN KEY (conversation_id, config_hash)
        REFERENCES score (conversation_id, config_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE generated_end (
    conversation_id INTEGER NOT NULL,
    config_hash TEXT NOT NULL,
    message INTEGER NOT NULL,
    ends INTEGER NOT NULL CHECK (ends IN (0, 1)),
    PRIMARY KEY (conversation_id, config_hash, message),
    FOREIGN KEY (conversation_id, config_hash, message)
        REFERENCES boundary_score (conversation_id, config_hash, message) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE remaining (
    conversation_id INTEGER NOT NULL,
    config_hash TEXT NOT NULL,
    score_config_hash TEXT NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    text TEXT NOT NULL,
    reason TEXT,
    PRIMARY KEY (conversation_id, config_hash),
    FOREIGN KEY (conversation_id, score_config_hash)
        REFERENCES score (conversation_id, config_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE state_config (
    config_hash TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    adapter TEXT
) STRICT, WITHOUT ROWID;

-- boundaries: JSON, [message, step, turn, characters so far, characters of the step] of each;
-- states: float16 row by row, little-endian; both empty with a reason
CREATE TABLE hidden_state (
    id INTEGER PRIMARY KEY,
    config_hash TEXT NOT NULL REFERENCES state_config (config_hash),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    run_id INTEGER NOT NULL REFERENCES run (id),
    boundaries TEXT NOT NULL,
    states BLOB NOT NULL,
    reason TEXT,
    tokens INTEGER NOT NULL,
    UNIQUE (config_hash, conversation_id)
) STRICT;

-- definition: the file of the question, TOML
CREATE TABLE question (name TEXT PRIMARY KEY, definition TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- What people answer. Append only: undo and redo are rows that name the row they act on. value: NULL takes an earlier
-- answer away; repeat: a second answer, given blind, that changes nothing; annotator: empty for a person without a name.
-- An undo or redo has neither a question nor an annotator.
CREATE TABLE answer (
    id INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    question TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('give', 'repeat', 'undo', 'redo')),
    value TEXT,
    given_at TEXT NOT NULL,
    target INTEGER REFERENCES answer (id),
    annotator TEXT NOT NULL DEFAULT '',
    CHECK (kind <> 'repeat' OR value IS NOT NULL),
    CHECK ((kind IN ('undo', 'redo')) = (target IS NOT NULL)),
    CHECK ((question = '') = (target IS NOT NULL))
) STRICT;
CREATE INDEX answer_by_conversation ON answer (conversation_id);
CREATE INDEX answer_by_question ON answer (question, conversation_id);
CREATE INDEX answer_by_target ON answer (target) WHERE target IS NOT NULL;
CREATE INDEX answer_by_annotator ON answer (annotator, conversation_id) WHERE target IS NULL;

-- who answers a question beside people: a pattern, a model or a file, by name; the rows are in the order of coming
CREATE TABLE answerer (
    config_hash TEXT PRIMARY KEY,
    question TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('pattern', 'model', 'file')),
    name TEXT NOT NULL
) STRICT;
CREATE INDEX answerer_by_question ON answerer (question);

-- value: NULL where there is no answer; p: its probability; cites: JSON list of the places that show it, [message,
-- first character, end]; note: how it was reached, or why there is none
CREATE TABLE machine_answer (
    config_hash TEXT NOT NULL REFERENCES answerer (config_hash),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    run_id INTEGER NOT NULL REFERENCES run (id),
    value TEXT,
    p REAL,
    explanation TEXT NOT NULL,
    cites TEXT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (config_hash, conversation_id)
) STRICT, WITHOUT ROWID;

-- subject: the name of a question; figures: JSON of the test
CREATE TABLE taught (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL UNIQUE,
    marks INTEGER NOT NULL,
    figures TEXT
) STRICT;

-- p: NULL before there are marks of both kinds; place: in the order of what a mark teaches, NULL for marked ones
CREATE TABLE taught_value (
    taught_id INTEGER NOT NULL REFERENCES taught (id) ON DELETE CASCADE,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    p REAL,
    place INTEGER,
    PRIMARY KEY (taught_id, conversation_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX taught_value_by_p ON taught_value (taught_id, p);
CREATE INDEX taught_value_by_place ON taught_value (taught_id, place);

-- boundaries: number of those reported; p: at the last of them, NULL for what was there before the first watch; ended: 1
-- when its end was reported, or when it was there before the first watch
CREATE TABLE watched (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
    boundaries INTEGER NOT NULL,
    p REAL,
    grew_at TEXT NOT NULL,
    ended INTEGER NOT NULL CHECK (ended IN (0, 1))
) STRICT;

CREATE TABLE tree_config (
    config_hash TEXT PRIMARY KEY,
    alpha REAL NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('path', 'token')),
    place TEXT NOT NULL CHECK (place IN ('last-answer', 'end', 'every')),
    model TEXT NOT NULL,
    adapter TEXT
) STRICT, WITHOUT ROWID;

-- packed: the tree's columns as JSON, compressed by zlib; NULL with a reason where there is no tree
CREATE TABLE tree (
    id INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    config_hash TEXT NOT NULL REFERENCES tree_config (config_hash),
    step INTEGER NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    reason TEXT,
    prompt_tokens INTEGER NOT NULL,
    note TEXT,
    leaves INTEGER NOT NULL,
    answers INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    max_log_prob REAL,
    covered REAL NOT NULL,
    pruned REAL NOT NULL,
    unexpanded REAL NOT NULL,
    entropy REAL NOT NULL,
    fork_entropy REAL,
    answer_log_prob REAL,
    answer_tokens INTEGER NOT NULL,
    answer_held INTEGER NOT NULL,
    seconds REAL NOT NULL,
    packed BLOB,
    CHECK ((packed IS NULL) = (reason IS NOT NULL)),
    UNIQUE (conversation_id, config_hash, step)
) STRICT;
CREATE INDEX tree_by_measure ON tree (config_hash, conversation_id, leaves, max_log_prob, entropy) WHERE reason IS NULL;

CREATE TABLE goal_config (config_hash TEXT PRIMARY KEY, model TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- with a reason the text is what the model replied, and no goal
CREATE TABLE goal_text (
    config_hash TEXT NOT NULL REFERENCES goal_config (config_hash),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    run_id INTEGER NOT NULL REFERENCES run (id),
    text TEXT NOT NULL,
    reason TEXT,
    PRIMARY KEY (config_hash, conversation_id),
    CHECK (text <> '' OR reason IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- goal_config: of the texts, where a model wrote them; state: what was fitted
CREATE TABLE vector_config (
    id INTEGER PRIMARY KEY,
    config_hash TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL CHECK (text IN ('first-user', 'all-user', 'all', 'summary', 'remaining', 'last-exchange')
        OR text LIKE 'explanation:%'),
    goal_config TEXT REFERENCES goal_config (config_hash),
    embedder TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    state BLOB,
    CHECK ((text = 'summary') = (goal_config IS NOT NULL))
) STRICT;

-- A row for each batch, so that a million vectors are read as fast as the file: ids int64, vectors float32,
-- both little-endian. first, last: the least and the greatest of the ids.
CREATE TABLE vector_block (
    id INTEGER PRIMARY KEY,
    config_id INTEGER NOT NULL REFERENCES vector_config (id),
    run_id INTEGER NOT NULL REFERENCES run (id),
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    count INTEGER NOT NULL,
    ids BLOB NOT NULL,
    vectors BLOB NOT NULL,
    CHECK (count > 0 AND length(ids) = 8 * count)
) STRICT;
CREATE INDEX vector_block_by_config ON vector_block (config_id, first, last, count);

CREATE TABLE no_vector (
    config_id INTEGER NOT NULL REFERENCES vector_config (id),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    reason TEXT NOT NULL,
    PRIMARY KEY (config_id, conversation_id)
) STRICT, WITHOUT ROWID;

-- label_config, pair_config: whose labels and answers are shown
CREATE TABLE clustering (
    id INTEGER PRIMARY KEY,
    config_hash TEXT NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    vector_config INTEGER NOT NULL REFERENCES vector_config (id),
    created_at TEXT NOT NULL,
    k INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    conversations INTEGER NOT NULL,
    outliers INTEGER NOT NULL,
    no_text INTEGER NOT NULL,
    paper INTEGER NOT NULL CHECK (paper IN (0, 1)),
    label_config TEXT,
    pair_config TEXT
) STRICT;
CREATE INDEX clustering_by_config ON clustering (config_hash);

-- words: JSON list; centre: mean of the members' unit vectors, float32
CREATE TABLE cluster (
    clustering_id INTEGER NOT NULL REFERENCES clustering (id),
    number INTEGER NOT NULL,
    size INTEGER NOT NULL CHECK (size > 0),
    words TEXT NOT NULL,
    centre BLOB NOT NULL,
    PRIMARY KEY (clustering_id, number)
) STRICT;

-- reason: why there is no label
CREATE TABLE cluster_label (
    clustering_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    config_hash TEXT NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    label TEXT NOT NULL,
    description TEXT NOT NULL,
    reason TEXT,
    supported INTEGER,
    read INTEGER,
    PRIMARY KEY (clustering_id, number, config_hash),
    FOREIGN KEY (clustering_id, number) REFERENCES cluster (clustering_id, number),
    CHECK (label <> '' OR reason IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- cluster: NULL for an outlier
CREATE TABLE membership (
    clustering_id INTEGER NOT NULL,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    cluster INTEGER,
    distance REAL NOT NULL,
    PRIMARY KEY (clustering_id, conversation_id),
    FOREIGN KEY (clustering_id, cluster) REFERENCES cluster (clustering_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX membership_by_cluster ON membership (clustering_id, cluster);

-- sides: a hash of the members of both, so that an answer is lost sight of when they change and found again
-- when they are as they were
CREATE TABLE pair_answer (
    config_hash TEXT NOT NULL,
    sides TEXT NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    yes REAL,
    yes_reversed REAL,
    reason TEXT NOT NULL,
    label TEXT NOT NULL,
    description TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    reason_against TEXT NOT NULL,
    spoken INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (config_hash, sides)
) STRICT, WITHOUT ROWID;

-- Append only: an undo is a row that names the act it takes back. sides, labels: JSON lists of group ids and
-- of what they were called; names: JSON list of [label, description] of what was made or renamed; evidence:
-- JSON, as it was shown; carried: the decision on an earlier clustering that it was taken over from; reviewed:
-- the decision of a model that this one of a person confirms ('agree') or replaces.
CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    clustering_id INTEGER NOT NULL REFERENCES clustering (id),
    act INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('merge', 'apart', 'never', 'split', 'move', 'rename',
        'pin', 'unpin', 'theme', 'agree', 'undo')),
    target INTEGER REFERENCES decision (id),
    sides TEXT NOT NULL,
    labels TEXT NOT NULL,
    names TEXT NOT NULL,
    author TEXT NOT NULL CHECK (author IN ('human', 'auto', 'llm')),
    model TEXT NOT NULL,
    probability REAL,
    evidence TEXT,
    given_at TEXT NOT NULL,
    carried INTEGER REFERENCES decision (id),
    reviewed INTEGER REFERENCES decision (id),
    CHECK ((kind = 'undo') = (target IS NOT NULL))
) STRICT;
CREATE INDEX decision_by_clustering ON decision (clustering_id, act);
CREATE INDEX decision_by_target ON decision (target) WHERE target IS NOT NULL;

-- the conversations that a decision names, int64: a part of a split, or what was moved
CREATE TABLE decision_part (
    decision_id INTEGER NOT NULL REFERENCES decision (id),
    part INTEGER NOT NULL,
    ids BLOB NOT NULL,
    PRIMARY KEY (decision_id, part)
) STRICT;

-- decisions on earlier clusterings that this one gives no place, with why; a later one may
CREATE TABLE decision_kept (
    clustering_id INTEGER NOT NULL REFERENCES clustering (id),
    decision_id INTEGER NOT NULL REFERENCES decision (id),
    reason TEXT NOT NULL,
    PRIMARY KEY (clustering_id, decision_id)
) STRICT, WITHOUT ROWID;

-- group_id: NULL for a novel one; after: the newest decision then; others: JSON list of [group id, score]
CREATE TABLE assignment (
    clustering_id INTEGER NOT NULL REFERENCES clustering (id),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    run_id INTEGER NOT NULL REFERENCES run (id),
    group_id TEXT,
    after INTEGER NOT NULL,
    distance REAL NOT NULL,
    PRIMARY KEY (clustering_id, conversation_id)
) STRICT, WITHOUT ROWID;

-- ari: with the clustering itself; labels: int32 for each of its conversations in id order, -1 for outliers
CREATE TABLE stability (
    clustering_id INTEGER NOT NULL REFERENCES clustering (id),
    config_hash TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('seed', 'bootstrap')),
    repetition INTEGER NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    ari REAL NOT NULL,
    labels BLOB,
    PRIMARY KEY (clustering_id, config_hash, kind, repetition)
) STRICT;

CREATE TABLE cluster_stability (
    clustering_id INTEGER NOT NULL,
    config_hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    number INTEGER NOT NULL,
    jaccard REAL NOT NULL,
    PRIMARY KEY (clustering_id, config_hash, kind, repetition, number),
    FOREIGN KEY (clustering_id, config_hash, kind, repetition)
        REFERENCES stability (clustering_id, config_hash, kind, repetition)
) STRICT, WITHOUT ROWID;

-- current: of the group that it is or became; label: NULL if it is that of its cluster; theme: empty for none
CREATE TABLE goal_group (
    clustering_id INTEGER NOT NULL REFERENCES clustering (id),
    group_id TEXT NOT NULL,
    current TEXT,
    label TEXT,
    theme TEXT NOT NULL,
    PRIMARY KEY (clustering_id, group_id)
) STRICT, WITHOUT ROWID;

-- conversations whose group is not the one that their cluster became; group_id: NULL for none
CREATE TABLE goal_move (
    clustering_id INTEGER NOT NULL REFERENCES clustering (id),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    group_id TEXT,
    PRIMARY KEY (clustering_id, conversation_id)
) STRICT, WITHOUT ROWID;

-- models: JSON
CREATE TABLE play_config (
    config_hash TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    models TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- reason: why it broke off, NULL where it ended; result: JSON
CREATE TABLE play (
    id INTEGER PRIMARY KEY,
    config_hash TEXT NOT NULL REFERENCES play_config (config_hash),
    key TEXT NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    conversation_id INTEGER REFERENCES conversation (id),
    reason TEXT,
    result TEXT NOT NULL,
    UNIQUE (config_hash, key)
) STRICT;
CREATE INDEX play_by_conversation ON play (conversation_id) WHERE conversation_id IS NOT NULL;

-- key: SHA-256 over the call and the fingerprints of the model
CREATE TABLE call_reply (
    key BLOB PRIMARY KEY CHECK (length(key) = 32),
    text TEXT NOT NULL,
    stopped TEXT NOT NULL CHECK (stopped IN ('end', 'stop', 'length')),
    note TEXT
) STRICT;
