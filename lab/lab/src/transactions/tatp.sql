CREATE TABLE subscriber (s_id int PRIMARY KEY, sub_nbr text NOT NULL UNIQUE,
  bit_1 smallint, bit_2 smallint, bit_3 smallint, bit_4 smallint, bit_5 smallint,
  bit_6 smallint, bit_7 smallint, bit_8 smallint, bit_9 smallint, bit_10 smallint,
  hex_1 smallint, hex_2 smallint, hex_3 smallint, hex_4 smallint, hex_5 smallint,
  hex_6 smallint, hex_7 smallint, hex_8 smallint, hex_9 smallint, hex_10 smallint,
  byte2_1 smallint, byte2_2 smallint, byte2_3 smallint, byte2_4 smallint, byte2_5 smallint,
  byte2_6 smallint, byte2_7 smallint, byte2_8 smallint, byte2_9 smallint, byte2_10 smallint,
  msc_location int, vlr_location int);
CREATE TABLE access_info (s_id int, ai_type smallint, data1 smallint, data2 smallint, data3 text, data4 text,
  PRIMARY KEY (s_id, ai_type));
CREATE TABLE special_facility (s_id int, sf_type smallint, is_active smallint, error_cntrl smallint,
  data_a smallint, data_b text, PRIMARY KEY (s_id, sf_type));
CREATE TABLE call_forwarding (s_id int, sf_type smallint, start_time smallint, end_time smallint, numberx text,
  PRIMARY KEY (s_id, sf_type, start_time));
CREATE FUNCTION update_subscriber_data(p_id int, p_bit int, p_kind int, p_data int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  UPDATE special_facility SET data_a = p_data WHERE s_id = p_id AND sf_type = p_kind;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE subscriber SET bit_1 = p_bit WHERE s_id = p_id;
  RETURN 1;
END $$;
CREATE FUNCTION insert_call_forwarding(p_number text, p_kind int, p_start int, p_end int, p_forward text)
  RETURNS int LANGUAGE plpgsql AS $$
DECLARE found_id int; found_kinds smallint[];
BEGIN
  SELECT s_id INTO found_id FROM subscriber WHERE sub_nbr = lpad(p_number, 15, '0');
  SELECT array_agg(sf_type) INTO found_kinds FROM special_facility WHERE s_id = found_id;
  IF p_kind::smallint = ANY (found_kinds) THEN
    INSERT INTO call_forwarding VALUES (found_id, p_kind, p_start, p_end, lpad(p_forward, 15, '0'))
      ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN 1; END IF;
  END IF;
  RETURN NULL;
END $$;
